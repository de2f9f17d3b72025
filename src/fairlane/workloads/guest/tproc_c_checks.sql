-- Consistency conditions 1 to 4 of TPC-C (clause 3.3.2), on either server: for each, its number and how often it does not
-- hold.
select 1, count(*) from warehouse
  where w_ytd <> (select sum(d_ytd) from district where d_w_id = w_id);
select 2, count(*) from district
  where d_next_o_id - 1 <> (select max(o_id) from orders where o_w_id = d_w_id and o_d_id = d_id)
    or d_next_o_id - 1 <> (select max(no_o_id) from new_order where no_w_id = d_w_id and no_d_id = d_id);
select 3, count(*) from (
  select max(no_o_id) - min(no_o_id) + 1 - count(*) as missing from new_order group by no_w_id, no_d_id
) as gaps where missing <> 0;
select 4, count(*) from (
  select o_w_id, o_d_id, sum(o_ol_cnt) as expected from orders group by o_w_id, o_d_id
) as of_orders left join (
  select ol_w_id, ol_d_id, count(*) as found from order_line group by ol_w_id, ol_d_id
) as of_lines on ol_w_id = o_w_id and ol_d_id = o_d_id where found is null or found <> expected;
