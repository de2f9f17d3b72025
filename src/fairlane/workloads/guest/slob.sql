-- The pattern of SLOB's I/O on PostgreSQL: one row a block, found by its number through an index. Two thirds of each block
-- are left free, so that a row's next versions stay in its block.

create table slob (id bigint not null, changes bigint not null, filler bytea not null) with (fillfactor = 34);
alter table slob alter filler set storage plain; -- in the row, not compressed

-- FIRST to LAST get their rows; 2,560 bytes each that do not compress, the same on every lane.
create procedure slob_fill(first bigint, last bigint) language sql as $$
  insert into slob
    select id, 0, (select string_agg(sha512(convert_to(id || '.' || part, 'UTF8')), '') from generate_series(1, 40) part)
      from generate_series(first, last) id
$$;

-- UNITS numbers of the first ROWS rows (at most 2^31), by the generator of Park and Miller (1993) from SEED on.
create function slob_ids(seed bigint, units int, rows bigint) returns bigint[] language plpgsql immutable as $$
declare
  x bigint := 1 + seed % 2147483646;
  ids bigint[] := '{}';
begin
  for i in 1 .. units loop
    x := x * 48271 % 2147483647;
    ids := ids || 1 + x % rows;
  end loop;
  return ids;
end
$$;

-- One after the other, each with a lookup of its own.
create function slob_read(seed bigint, units int, rows bigint) returns bigint language plpgsql as $$
declare
  wanted bigint;
  total bigint := 0;
begin
  foreach wanted in array slob_ids(seed, units, rows) loop
    total := total + (select changes + length(filler) from slob where id = wanted);
  end loop;
  return total;
end
$$;

-- In one order for all, so that no two wait for each other.
create function slob_update(seed bigint, units int, rows bigint) returns bigint language plpgsql as $$
declare
  wanted bigint;
  total bigint := 0;
begin
  for wanted in select distinct id from unnest(slob_ids(seed, units, rows)) id order by id loop
    update slob set changes = changes + 1 where id = wanted;
    total := total + 1;
  end loop;
  return total;
end
$$;
