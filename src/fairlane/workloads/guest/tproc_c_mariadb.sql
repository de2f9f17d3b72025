-- Tables, data and transactions after the public description of TPC-C (revision 5.11, clauses 1.3, 2 and 4.3.3), for
-- MariaDB. The callers draw all random numbers of transactions (tproc_c.lua); those of the data are the server's, seeded.

create table warehouse (
  w_id int primary key, w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20), w_city varchar(20),
  w_state char(2), w_zip char(9), w_tax decimal(4, 4), w_ytd decimal(12, 2)
) engine = innodb;
create table district (
  d_w_id int, d_id int, d_name varchar(10), d_street_1 varchar(20), d_street_2 varchar(20), d_city varchar(20),
  d_state char(2), d_zip char(9), d_tax decimal(4, 4), d_ytd decimal(12, 2), d_next_o_id int, primary key (d_w_id, d_id)
) engine = innodb;
create table customer (
  c_w_id int, c_d_id int, c_id int, c_first varchar(16), c_middle char(2), c_last varchar(16), c_street_1 varchar(20),
  c_street_2 varchar(20), c_city varchar(20), c_state char(2), c_zip char(9), c_phone char(16), c_since datetime,
  c_credit char(2), c_credit_lim decimal(12, 2), c_discount decimal(4, 4), c_balance decimal(12, 2),
  c_ytd_payment decimal(12, 2), c_payment_cnt int, c_delivery_cnt int, c_data varchar(500),
  primary key (c_w_id, c_d_id, c_id), key by_name (c_w_id, c_d_id, c_last, c_first)
) engine = innodb;
create table history (
  h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date datetime, h_amount decimal(6, 2),
  h_data varchar(24)
) engine = innodb;
create table orders (
  o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d datetime, o_carrier_id int, o_ol_cnt int, o_all_local int,
  primary key (o_w_id, o_d_id, o_id), key by_customer (o_w_id, o_d_id, o_c_id, o_id)
) engine = innodb;
create table new_order (
  no_w_id int, no_d_id int, no_o_id int, primary key (no_w_id, no_d_id, no_o_id)
) engine = innodb;
create table order_line (
  ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_supply_w_id int, ol_delivery_d datetime,
  ol_quantity int, ol_amount decimal(6, 2), ol_dist_info char(24), primary key (ol_w_id, ol_d_id, ol_o_id, ol_number)
) engine = innodb;
create table item (
  i_id int primary key, i_im_id int, i_name varchar(24), i_price decimal(5, 2), i_data varchar(50)
) engine = innodb;
create table stock (
  s_w_id int, s_i_id int, s_quantity int, s_dist char(240), s_ytd int, s_order_cnt int, s_remote_cnt int,
  s_data varchar(50), primary key (s_w_id, s_i_id)
) engine = innodb;

delimiter //
create function pick(low int, high int) returns int no sql return low + floor(rand() * (high - low + 1))//
create function letters(low int, high int) returns varchar(64) no sql
  return left(to_base64(unhex(sha2(rand(), 512))), pick(low, high))//
create function noise() returns char(240) no sql
  return left(replace(to_base64(unhex(concat(sha2(rand(), 512), sha2(rand(), 512), sha2(rand(), 512)))), '\n', ''), 240)//
-- clause 2.1.6; 157 is the c of customers' names in the data, tproc_c.lua has those of the transactions
create function nurand(a int, low int, high int, c int) returns int no sql
  return ((pick(0, a) | pick(low, high)) + c) % (high - low + 1) + low//
-- clause 4.3.2.3
create function last_name(number int) returns varchar(16) deterministic no sql
  return concat(
    elt(number div 100 + 1, 'BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'),
    elt(number div 10 % 10 + 1, 'BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'),
    elt(number % 10 + 1, 'BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'))//
create function marked(content varchar(50)) returns varchar(50) no sql -- one of ten has ORIGINAL in it
  return if(pick(1, 10) = 1, insert(content, pick(1, length(content) - 8), 8, 'ORIGINAL'), content)//

create procedure fill(warehouses int)
begin
  declare w int default 1;
  set rand_seed1 = 1, rand_seed2 = 2;
  insert into item
    select seq, pick(1, 10000), letters(14, 24), pick(100, 10000) / 100, marked(letters(26, 50)) from seq_1_to_100000;
  while w <= warehouses do
    start transaction;
    insert into warehouse values
      (w, letters(6, 10), letters(10, 20), letters(10, 20), letters(10, 20), letters(2, 2),
       concat(pick(1000, 9999), '11111'), pick(0, 2000) / 10000, 300000);
    insert into district
      select w, seq, letters(6, 10), letters(10, 20), letters(10, 20), letters(10, 20), letters(2, 2),
        concat(pick(1000, 9999), '11111'), pick(0, 2000) / 10000, 30000, 3001
      from seq_1_to_10;
    insert into stock
      select w, seq, pick(10, 100),
        noise(), 0, 0, 0, marked(letters(26, 50))
      from seq_1_to_100000;
    insert into customer
      select w, d.seq, c.seq, letters(8, 16), 'OE', last_name(if(c.seq <= 1000, c.seq - 1, nurand(255, 0, 999, 157))),
        letters(10, 20), letters(10, 20), letters(10, 20), letters(2, 2), concat(pick(1000, 9999), '11111'),
        concat(pick(10000000, 99999999), letters(8, 8)), '2000-01-01', if(pick(1, 10) = 1, 'BC', 'GC'), 50000,
        pick(0, 5000) / 10000, -10, 10, 1, 0, left(concat(noise(), noise(), letters(24, 24)), pick(300, 500))
      from seq_1_to_10 as d join seq_1_to_3000 as c;
    insert into history
      select c.seq, d.seq, w, d.seq, w, '2000-01-01', 10, letters(12, 24) from seq_1_to_10 as d join seq_1_to_3000 as c;
    insert into orders
      select w, d, row_number() over (partition by d order by r), c, '2000-01-01', null, pick(5, 15), 1
      from (select d.seq as d, c.seq as c, rand() as r from seq_1_to_10 as d join seq_1_to_3000 as c) as x;
    update orders set o_carrier_id = pick(1, 10) where o_w_id = w and o_id < 2101;
    insert into order_line -- 300,000 rows: calls of functions took a fifth of all the time
      select w, o_d_id, o_id, n.seq, 1 + floor(rand() * 100000), w, if(o_id < 2101, o_entry_d, null), 5,
        if(o_id < 2101, 0, (1 + floor(rand() * 999999)) / 100), left(to_base64(unhex(sha2(rand(), 512))), 24)
      from orders join seq_1_to_15 as n on n.seq <= o_ol_cnt where o_w_id = w;
    insert into new_order select w, o_d_id, o_id from orders where o_w_id = w and o_id >= 2101;
    commit;
    set w = w + 1;
  end while;
end//

-- clause 2.4. items: JSON, [[item, supplying warehouse, quantity], ...]
create procedure new_order_transaction(home int, d int, c int, all_local int, items varchar(1000))
body: begin
  declare o, n, item_id, supply, quantity int default 0;
  declare price, total, district_tax, warehouse_tax, discount decimal(14, 4) default 0;
  declare dist char(24);
  declare done bool default false;
  declare line cursor for
    select i, s, q from json_table(items, '$[*]' columns (i int path '$[0]', s int path '$[1]', q int path '$[2]')) as t;
  declare continue handler for not found set done = true;
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  select w_tax into warehouse_tax from warehouse where w_id = home;
  select c_discount into discount from customer where c_w_id = home and c_d_id = d and c_id = c;
  select d_tax, d_next_o_id into district_tax, o from district where d_w_id = home and d_id = d for update;
  update district set d_next_o_id = o + 1 where d_w_id = home and d_id = d;
  insert into orders values (home, d, o, c, now(), null, json_length(items), all_local);
  insert into new_order values (home, d, o);
  open line;
  each_line: loop
    fetch line into item_id, supply, quantity;
    if done then leave each_line; end if;
    set n = n + 1;
    select i_price into price from item where i_id = item_id;
    if done then -- an item that does not exist: one of a hundred is rolled back so
      rollback;
      leave body;
    end if;
    select substr(s_dist, 24 * d - 23, 24) into dist from stock where s_w_id = supply and s_i_id = item_id for update;
    update stock set
      s_quantity = if(s_quantity >= quantity + 10, s_quantity - quantity, s_quantity - quantity + 91),
      s_ytd = s_ytd + quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (supply <> home)
      where s_w_id = supply and s_i_id = item_id;
    insert into order_line values (home, d, o, n, item_id, supply, null, quantity, quantity * price, dist);
    set total = total + quantity * price;
  end loop;
  set total = total * (1 - discount) * (1 + warehouse_tax + district_tax);
  commit;
end//

-- clauses 2.5.2.2 and 2.6.2.2: a customer by number, or, if that is 0, of those with a name, sorted by first name, the one
-- in the middle
create function customer_of(w int, d int, number int, name int) returns int reads sql data
begin
  declare matches int default 0;
  if number > 0 then return number; end if;
  select count(*) into matches from customer where c_w_id = w and c_d_id = d and c_last = last_name(name);
  return (
    select c_id from (
      select c_id, row_number() over (order by c_first) as place from customer
      where c_w_id = w and c_d_id = d and c_last = last_name(name)
    ) as named where place = (matches + 1) div 2
  );
end//

create procedure payment_transaction(home int, d int, w_of int, d_of int, number int, name int, amount decimal(6, 2))
begin -- clause 2.5
  declare c int;
  declare title, title_of_district varchar(10);
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  update warehouse set w_ytd = w_ytd + amount where w_id = home;
  select w_name into title from warehouse where w_id = home;
  update district set d_ytd = d_ytd + amount where d_w_id = home and d_id = d;
  select d_name into title_of_district from district where d_w_id = home and d_id = d;
  set c = customer_of(w_of, d_of, number, name);
  update customer set
    c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount, c_payment_cnt = c_payment_cnt + 1,
    c_data = if(c_credit = 'BC',
      left(concat(concat_ws(' ', c_id, c_d_id, c_w_id, d, home, amount), '|', c_data), 500), c_data)
    where c_w_id = w_of and c_d_id = d_of and c_id = c;
  insert into history values (c, d_of, w_of, d, home, now(), amount, concat(title, '    ', title_of_district));
  commit;
end//

create procedure order_status_transaction(home int, d int, number int, name int)
begin -- clause 2.6
  declare c, o, found int;
  declare balance, amount decimal(12, 2);
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  set c = customer_of(home, d, number, name);
  select c_balance into balance from customer where c_w_id = home and c_d_id = d and c_id = c;
  select max(o_id) into o from orders where o_w_id = home and o_d_id = d and o_c_id = c;
  select count(*), sum(ol_amount) into found, amount from order_line where ol_w_id = home and ol_d_id = d and ol_o_id = o;
  commit;
end//

create procedure delivery_transaction(home int, carrier int)
begin -- clause 2.7
  declare d int default 1;
  declare o, c int;
  declare amount decimal(12, 2);
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  while d <= 10 do
    set o = (select no_o_id from new_order where no_w_id = home and no_d_id = d order by no_o_id limit 1 for update);
    if o is not null then
      delete from new_order where no_w_id = home and no_d_id = d and no_o_id = o;
      select o_c_id into c from orders where o_w_id = home and o_d_id = d and o_id = o for update;
      update orders set o_carrier_id = carrier where o_w_id = home and o_d_id = d and o_id = o;
      update order_line set ol_delivery_d = now() where ol_w_id = home and ol_d_id = d and ol_o_id = o;
      select sum(ol_amount) into amount from order_line where ol_w_id = home and ol_d_id = d and ol_o_id = o;
      update customer set c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
        where c_w_id = home and c_d_id = d and c_id = c;
    end if;
    set d = d + 1;
  end while;
  commit;
end//

create procedure stock_level_transaction(home int, d int, threshold int)
begin -- clause 2.8
  declare newest, few int;
  select d_next_o_id - 1 into newest from district where d_w_id = home and d_id = d;
  select count(distinct s_i_id) into few from order_line
    join stock on s_w_id = home and s_i_id = ol_i_id and s_quantity < threshold
    where ol_w_id = home and ol_d_id = d and ol_o_id between newest - 19 and newest;
end//
delimiter ;
