-- Logs every transaction of the test before it: client, number, µs, script, Unix time at its end (s, µs), 0, retries, as
-- pgbench -l does; script is a global of a test that has several. A transaction that is repeated after a deadlock counts
-- from its first attempt.
local ffi = require("ffi")
ffi.cdef("typedef struct { long s, ns; } fairlane_time; int clock_gettime(int clock, fairlane_time *time);")
local REALTIME, MONOTONIC = 0, 1
local began, ended = ffi.new("fairlane_time"), ffi.new("fairlane_time")
local transaction, done = event, thread_done
local log, number, retries = nil, 0, -1

function event(id)
   if not log then
      log = assert(io.open("sysbench_log." .. id, "w"))
      log:setvbuf("full", 65536)
   end
   if retries < 0 then ffi.C.clock_gettime(MONOTONIC, began) end
   retries = retries + 1
   transaction(id)
   ffi.C.clock_gettime(MONOTONIC, ended)
   local us = tonumber((ended.s - began.s) * 1000000 + (ended.ns - began.ns) / 1000)
   ffi.C.clock_gettime(REALTIME, ended)
   log:write(string.format("%d %d %d %d %d %d 0 %d\n", id, number, us, script or 0, tonumber(ended.s), tonumber(ended.ns / 1000), retries))
   number, retries = number + 1, -1
end

function thread_done(id)
   if log then log:close() end
   done(id)
end
