-- The transactions of tproc_c_mariadb.sql in TPC-C's mix, with their random numbers (clauses 2 and 5.2.3). Each client has
-- a home warehouse. No keying and no thinking time.
sysbench.cmdline.options = {warehouses = {"Warehouses", 1}}
local random = sysbench.rand.uniform
local link, home, warehouses

-- in the order of the log's scripts
local MIX = {45, 43, 4, 4, 4}
script = 0

local function nurand(a, low, high, c)
   return (bit.bor(random(0, a), random(low, high)) + c) % (high - low + 1) + low
end

local function other_warehouse()
   return (home - 1 + random(1, warehouses - 1)) % warehouses + 1
end

local function customer() -- a number, or 0 and the number of a name
   if random(1, 100) <= 60 then return 0, nurand(255, 0, 999, 223) end
   return nurand(1023, 1, 3000, 259), 0
end

local function new_order()
   local lines, wrong, supplies = {}, random(1, 100) == 1, 1
   for n = 1, random(5, 15) do
      local supply = home
      if warehouses > 1 and random(1, 100) == 1 then supply, supplies = other_warehouse(), 0 end
      lines[n] = {nurand(8191, 1, 100000, 7911), supply, random(1, 10)}
   end
   -- all transactions lock rows of stock in one order, so that none waits for another in a circle
   table.sort(lines, function(a, b) return a[2] < b[2] or (a[2] == b[2] and a[1] < b[1]) end)
   if wrong then lines[#lines][1] = 100001 end -- no such item: the transaction is rolled back
   for n, line in ipairs(lines) do lines[n] = string.format("[%d,%d,%d]", line[1], line[2], line[3]) end
   link:query(string.format("call new_order_transaction(%d,%d,%d,%d,'[%s]')", home, random(1, 10),
      nurand(1023, 1, 3000, 259), supplies, table.concat(lines, ",")))
end

local function payment()
   local d = random(1, 10)
   local of, d_of = home, d
   if warehouses > 1 and random(1, 100) > 85 then of, d_of = other_warehouse(), random(1, 10) end
   local number, name = customer()
   link:query(string.format("call payment_transaction(%d,%d,%d,%d,%d,%d,%.2f)", home, d, of, d_of, number, name,
      random(100, 500000) / 100))
end

local function order_status()
   local number, name = customer()
   link:query(string.format("call order_status_transaction(%d,%d,%d,%d)", home, random(1, 10), number, name))
end

local function delivery()
   link:query(string.format("call delivery_transaction(%d,%d)", home, random(1, 10)))
end

local function stock_level()
   link:query(string.format("call stock_level_transaction(%d,%d,%d)", home, random(1, 10), random(10, 20)))
end

local TRANSACTIONS = {new_order, payment, order_status, delivery, stock_level}

function thread_init(id)
   warehouses = sysbench.opt.warehouses
   home = id % warehouses + 1
   link = sysbench.sql.driver():connect()
end

function event()
   local drawn, chosen = random(1, 100), 1
   while drawn > MIX[chosen] do drawn, chosen = drawn - MIX[chosen], chosen + 1 end
   script = chosen - 1
   TRANSACTIONS[chosen]()
end

function thread_done()
   link:disconnect()
end
