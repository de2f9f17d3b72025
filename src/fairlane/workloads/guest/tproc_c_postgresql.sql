-- Tables, data and transactions after the public description of TPC-C (revision 5.11, clauses 1.3, 2 and 4.3.3), for
-- PostgreSQL. Random numbers are the server's, seeded by the caller, so that a seed gives the same transaction.

create table warehouse (
  w_id int primary key, w_name text, w_street_1 text, w_street_2 text, w_city text, w_state char(2), w_zip char(9),
  w_tax numeric(4, 4), w_ytd numeric(12, 2)
) with (fillfactor = 10);
create table district (
  d_w_id int, d_id int, d_name text, d_street_1 text, d_street_2 text, d_city text, d_state char(2), d_zip char(9),
  d_tax numeric(4, 4), d_ytd numeric(12, 2), d_next_o_id int
) with (fillfactor = 10);
create table customer (
  c_w_id int, c_d_id int, c_id int, c_first varchar(16), c_middle char(2), c_last varchar(16), c_street_1 varchar(20),
  c_street_2 varchar(20), c_city varchar(20), c_state char(2), c_zip char(9), c_phone char(16), c_since timestamp,
  c_credit char(2), c_credit_lim numeric(12, 2), c_discount numeric(4, 4), c_balance numeric(12, 2),
  c_ytd_payment numeric(12, 2), c_payment_cnt int, c_delivery_cnt int, c_data varchar(500)
);
create table history (
  h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date timestamp, h_amount numeric(6, 2),
  h_data varchar(24)
);
create table orders (
  o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int, o_all_local int
);
create table new_order (no_w_id int, no_d_id int, no_o_id int);
create table order_line (
  ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_supply_w_id int, ol_delivery_d timestamp,
  ol_quantity int, ol_amount numeric(6, 2), ol_dist_info char(24)
);
create table item (i_id int primary key, i_im_id int, i_name varchar(24), i_price numeric(5, 2), i_data varchar(50));
create table stock (
  s_w_id int, s_i_id int, s_quantity int, s_dist char(240), s_ytd int, s_order_cnt int, s_remote_cnt int,
  s_data varchar(50)
);

create function pick(low int, high int) returns int language sql volatile as
  'select low + floor(random() * (high - low + 1))::int';
create function letters(low int, high int) returns text language sql volatile as
  $$select left(encode(sha512(random()::text::bytea), 'base64'), pick(low, high))$$;
create function noise() returns char(240) language sql volatile as $$
  select left(translate(encode(sha512(random()::text::bytea) || sha512(random()::text::bytea) ||
    sha512(random()::text::bytea), 'base64'), E'\n', ''), 240)
$$;
-- clause 2.1.6; of customers' names c differs between data and transactions, as 2.1.6.1 asks: 157 and 223
create function nurand(a int, low int, high int, c int) returns int language sql volatile as
  'select ((pick(0, a) | pick(low, high)) + c) % (high - low + 1) + low';
-- clause 4.3.2.3
create function last_name(number int) returns text language sql immutable as $$
  select n[number / 100 + 1] || n[number / 10 % 10 + 1] || n[number % 10 + 1]
  from (values ('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[])) as syllables (n)
$$;
create function marked(content text) returns text language sql volatile as $$ -- one of ten has ORIGINAL in it
  select case when pick(1, 10) = 1 then overlay(content placing 'ORIGINAL' from pick(1, length(content) - 8)) else content end
$$;

create procedure fill(warehouses int) language plpgsql as $$
begin
  perform setseed(0.5);
  insert into item
    select i, pick(1, 10000), letters(14, 24), pick(100, 10000) / 100.0, marked(letters(26, 50))
    from generate_series(1, 100000) i;
  for w in 1..warehouses loop
    insert into warehouse values
      (w, letters(6, 10), letters(10, 20), letters(10, 20), letters(10, 20), letters(2, 2), pick(1000, 9999) || '11111',
       pick(0, 2000) / 10000.0, 300000);
    insert into district
      select w, d, letters(6, 10), letters(10, 20), letters(10, 20), letters(10, 20), letters(2, 2),
        pick(1000, 9999) || '11111', pick(0, 2000) / 10000.0, 30000, 3001
      from generate_series(1, 10) d;
    insert into stock
      select w, i, pick(10, 100), noise(), 0, 0, 0,
        marked(letters(26, 50))
      from generate_series(1, 100000) i;
    insert into customer
      select w, d, c, letters(8, 16), 'OE', last_name(case when c <= 1000 then c - 1 else nurand(255, 0, 999, 157) end),
        letters(10, 20), letters(10, 20), letters(10, 20), letters(2, 2), pick(1000, 9999) || '11111',
        pick(10000000, 99999999) || letters(8, 8), timestamp '2000-01-01', case when pick(1, 10) = 1 then 'BC' else 'GC' end,
        50000, pick(0, 5000) / 10000.0, -10, 10, 1, 0,
        left(noise() || noise() || letters(24, 24), pick(300, 500))
      from generate_series(1, 10) d, generate_series(1, 3000) c;
    insert into history
      select c, d, w, d, w, timestamp '2000-01-01', 10, letters(12, 24)
      from generate_series(1, 10) d, generate_series(1, 3000) c;
    insert into orders
      select w, d, row_number() over (partition by d order by random()), c, timestamp '2000-01-01', null, pick(5, 15), 1
      from generate_series(1, 10) d, generate_series(1, 3000) c;
    update orders set o_carrier_id = pick(1, 10) where o_w_id = w and o_id < 2101;
    insert into order_line
      select w, o_d_id, o_id, n, pick(1, 100000), w, case when o_id < 2101 then o_entry_d end, 5,
        case when o_id < 2101 then 0 else pick(1, 999999) / 100.0 end, letters(24, 24)
      from orders, generate_series(1, o_ol_cnt) n where o_w_id = w;
    insert into new_order select w, o_d_id, o_id from orders where o_w_id = w and o_id >= 2101;
    commit;
  end loop;
end $$;

create function finish_fill() returns void language sql as $$ -- after the rows: quicker, and the indexes are dense
  alter table district add primary key (d_w_id, d_id);
  alter table customer add primary key (c_w_id, c_d_id, c_id);
  alter table orders add primary key (o_w_id, o_d_id, o_id);
  alter table new_order add primary key (no_w_id, no_d_id, no_o_id);
  alter table order_line add primary key (ol_w_id, ol_d_id, ol_o_id, ol_number);
  alter table stock add primary key (s_w_id, s_i_id);
  create index customer_by_name on customer (c_w_id, c_d_id, c_last, c_first);
  create index orders_by_customer on orders (o_w_id, o_d_id, o_c_id, o_id);
$$;

create function other_warehouse(home int, warehouses int) returns int language sql volatile as
  'select (home - 1 + pick(1, warehouses - 1)) % warehouses + 1';

-- clause 2.5.2.2 and 2.6.2.2: of the customers with a name, sorted by first name, the one in the middle
create function customer_named(w int, d int, name text) returns int language sql stable as $$
  select ids[(cardinality(ids) + 1) / 2]
  from (select array_agg(c_id order by c_first) as ids from customer where c_w_id = w and c_d_id = d and c_last = name) x
$$;
create function some_customer(w int, d int) returns int language sql volatile as $$
  select case
    when pick(1, 100) <= 60 then customer_named(w, d, last_name(nurand(255, 0, 999, 223)))
    else nurand(1023, 1, 3000, 259)
  end
$$;

create procedure new_order_transaction(home int, warehouses int, seed float) language plpgsql as $$ -- clause 2.4
declare
  d int;
  c int;
  o int;
  lines int;
  items int[];
  supplies int[];
  quantity int;
  price numeric;
  total numeric := 0;
  district_tax numeric;
  warehouse_tax numeric;
  discount numeric;
  dist text;
  wrong boolean;
begin
  perform setseed(seed);
  d := pick(1, 10);
  c := nurand(1023, 1, 3000, 259);
  lines := pick(5, 15);
  wrong := pick(1, 100) = 1;
  -- all transactions lock rows of stock in one order, so that none waits for another in a circle
  select array_agg(i order by s, i), array_agg(s order by s, i) into items, supplies
  from (
    select nurand(8191, 1, 100000, 7911) as i,
      case when warehouses > 1 and pick(1, 100) = 1 then other_warehouse(home, warehouses) else home end as s
    from generate_series(1, lines)
  ) x;
  if wrong then -- one of a hundred has an item that does not exist, at its end: it is rolled back
    items[lines] := 100001;
  end if;
  select w_tax into warehouse_tax from warehouse where w_id = home;
  select c_discount into discount from customer where c_w_id = home and c_d_id = d and c_id = c;
  update district set d_next_o_id = d_next_o_id + 1 where d_w_id = home and d_id = d
    returning d_tax, d_next_o_id - 1 into district_tax, o;
  insert into orders values (home, d, o, c, now(), null, lines, (home = all (supplies))::int);
  insert into new_order values (home, d, o);
  for n in 1..lines loop
    select i_price into price from item where i_id = items[n];
    if not found then
      rollback;
      return;
    end if;
    quantity := pick(1, 10);
    update stock set
      s_quantity = case when s_quantity >= quantity + 10 then s_quantity - quantity else s_quantity - quantity + 91 end,
      s_ytd = s_ytd + quantity, s_order_cnt = s_order_cnt + 1,
      s_remote_cnt = s_remote_cnt + (supplies[n] <> home)::int
      where s_w_id = supplies[n] and s_i_id = items[n] returning substr(s_dist, 24 * d - 23, 24) into dist;
    insert into order_line values (home, d, o, n, items[n], supplies[n], null, quantity, quantity * price, dist);
    total := total + quantity * price;
  end loop;
  total := total * (1 - discount) * (1 + warehouse_tax + district_tax);
end $$;

create procedure payment_transaction(home int, warehouses int, seed float) language plpgsql as $$ -- clause 2.5
declare
  d int;
  w_of int := home;
  d_of int;
  c int;
  amount numeric;
  title text;
begin
  perform setseed(seed);
  d := pick(1, 10);
  d_of := d;
  amount := pick(100, 500000) / 100.0;
  if warehouses > 1 and pick(1, 100) > 85 then
    w_of := other_warehouse(home, warehouses);
    d_of := pick(1, 10);
  end if;
  c := some_customer(w_of, d_of);
  update warehouse set w_ytd = w_ytd + amount where w_id = home returning w_name into title;
  update district set d_ytd = d_ytd + amount where d_w_id = home and d_id = d returning title || '    ' || d_name into title;
  update customer set
    c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount, c_payment_cnt = c_payment_cnt + 1,
    c_data = case c_credit
      when 'BC' then left(concat_ws(' ', c_id, c_d_id, c_w_id, d, home, amount) || '|' || c_data, 500) else c_data
    end
    where c_w_id = w_of and c_d_id = d_of and c_id = c;
  insert into history values (c, d_of, w_of, d, home, now(), amount, title);
end $$;

create procedure order_status_transaction(home int, warehouses int, seed float) language plpgsql as $$ -- clause 2.6
declare
  d int;
  c int;
  o int;
begin
  perform setseed(seed);
  d := pick(1, 10);
  c := some_customer(home, d);
  perform c_balance, c_first, c_middle, c_last from customer where c_w_id = home and c_d_id = d and c_id = c;
  select o_id into o from orders where o_w_id = home and o_d_id = d and o_c_id = c order by o_id desc limit 1;
  perform ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
    from order_line where ol_w_id = home and ol_d_id = d and ol_o_id = o;
end $$;

create procedure delivery_transaction(home int, warehouses int, seed float) language plpgsql as $$ -- clause 2.7
declare
  carrier int;
  o int;
  c int;
  amount numeric;
begin
  perform setseed(seed);
  carrier := pick(1, 10);
  for d in 1..10 loop
    delete from new_order where no_w_id = home and no_d_id = d and no_o_id = (
      select no_o_id from new_order where no_w_id = home and no_d_id = d order by no_o_id limit 1 for update skip locked
    ) returning no_o_id into o;
    continue when not found;
    update orders set o_carrier_id = carrier where o_w_id = home and o_d_id = d and o_id = o returning o_c_id into c;
    update order_line set ol_delivery_d = now() where ol_w_id = home and ol_d_id = d and ol_o_id = o;
    select sum(ol_amount) into amount from order_line where ol_w_id = home and ol_d_id = d and ol_o_id = o;
    update customer set c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
      where c_w_id = home and c_d_id = d and c_id = c;
  end loop;
end $$;

create procedure stock_level_transaction(home int, warehouses int, seed float) language plpgsql as $$ -- clause 2.8
declare
  d int;
  threshold int;
  newest int;
begin
  perform setseed(seed);
  d := pick(1, 10);
  threshold := pick(10, 20);
  select d_next_o_id - 1 into newest from district where d_w_id = home and d_id = d;
  perform count(distinct s_i_id) from order_line
    join stock on s_w_id = home and s_i_id = ol_i_id and s_quantity < threshold
    where ol_w_id = home and ol_d_id = d and ol_o_id between newest - 19 and newest;
end $$;
