# PostgreSQL on a lane's volume; database.sh is before it. Set before: $wanted (a major version, or empty),
# $folders, $oldest, $initdb_options.
# shellcheck disable=SC2034,SC2086,SC2154
tab=$(printf '\t')
title=PostgreSQL owner=postgres port=5432
sysbench_to="--db-driver=pgsql --pgsql-host=$sock --pgsql-port=$port --pgsql-user=postgres --pgsql-password= --pgsql-db=bench"

find_server() { # the newest server, or the one of the version wanted -> $bin, $major
  bin='' seen=''
  for b in $(ls -d $folders 2> /dev/null | sort -V) "$(dirname "$(command -v postgres || echo /)")"; do
    # a folder that has some of them only is no installation
    [ -x "$b/postgres" ] && [ -x "$b/initdb" ] && [ -x "$b/pg_ctl" ] && [ -x "$b/psql" ] || continue
    of=$("$b/postgres" -V | sed 's/[^0-9]*\([0-9]*\).*/\1/')
    seen="$seen $of"
    [ -z "$wanted" ] || [ "$of" = "$wanted" ] || continue
    [ -n "$bin" ] && [ "$of" -lt "$major" ] || bin=$b major=$of
  done
  if [ -z "$bin" ]; then
    [ -n "$seen" ] ||
      fail "PostgreSQL is not installed on this machine (no postgres, initdb, pg_ctl and psql in $folders or PATH)"
    fail "PostgreSQL $wanted is not installed on this machine; installed:$seen"
  fi
  [ "$major" -ge "$oldest" ] || fail "PostgreSQL $major is too old: expected $oldest or newer"
}

plain() { # lines of the server's log without time and process
  sed 's/^[-0-9]* [0-9:.]* [A-Z]* \[[0-9]*\] *//'
}

failure() {
  grep -E ' (PANIC|FATAL|LOG): ' "$here/server.log" | grep -E 'PANIC|could not|server process' | plain | head -n 1 |
    cut -c 1-300 >&2
}

configure() { # standard input: the study's settings
  {
    cat
    printf "%s\n" "listen_addresses = ''" "port = $port" "unix_socket_directories = '$sock'" \
      "logging_collector = off" "log_destination = stderr"
  } > "$here/fairlane.conf"
  cp "$here/fairlane.conf" "$data/fairlane.conf" || fail "the volume is full: the server cannot be configured"
  chmod 644 "$data/fairlane.conf"
}

start() { # starts the server on $data; its log is server.log
  : > "$sock/log"
  if [ "$(id -u)" = 0 ]; then chown "$owner" "$sock/log"; fi
  if ! as "$bin/pg_ctl" start -D "$data" -w -t 120 -s -l "$sock/log" > "$here/start.out" 2>&1 < /dev/null; then
    cp "$sock/log" "$here/server.log"
    cause='invalid value|unrecognized|syntax error|outside the valid range|could not'
    why=$(grep -hE "$cause" "$here/server.log" | head -n 1)
    [ -n "$why" ] || why=$(grep -hE 'FATAL|PANIC|ERROR|error' "$here/server.log" "$here/start.out" | tail -n 1)
    fail "the server does not start: $(printf '%s\n' "$why" | plain | cut -c 1-250)"
  fi
  read -r postmaster < "$data/postmaster.pid"
  started=1
}

sql() { "$bin/psql" -X -q -A -t -F "$tab" -v ON_ERROR_STOP=1 -h "$sock" -p "$port" -U postgres -d bench "$@"; }

create_database() { "$bin/createdb" -h "$sock" -p "$port" -U postgres bench 2> createdb.out || fail "$(tail -n 1 createdb.out)"; }

initialise() { # an empty cluster in $data
  make_owned "$data"
  as "$bin/initdb" -D "$data" -A trust -U postgres --no-sync -E UTF8 --locale=C $initdb_options > initdb.out 2>&1 \
    < /dev/null ||
    fail "initdb failed: $(grep -iE 'error|fatal|could not' initdb.out | tail -n 1 | cut -c 1-250)"
  echo "include 'fairlane.conf'" >> "$data/postgresql.conf"
}

keep_template() { # the running server's data, at rest, as $template
  sql -c 'VACUUM FREEZE ANALYZE' -c CHECKPOINT || fail "the database cannot be brought to rest"
  as "$bin/pg_ctl" stop -D "$data" -m fast -w -t 300 -s > stop.out 2>&1 ||
    fail "the server does not stop: $(tail -n 1 stop.out)"
  keep_data
}

rest() { # rest is read, not assumed
  sql -c CHECKPOINT > /dev/null || fail "the server does not answer"
  i=0
  while [ "$(sql -c 'select count(*) from pg_stat_progress_vacuum')" != 0 ]; do
    i=$((i + 1))
    [ $i -lt 100 ] || break
    sleep 0.1
  done
}

settings() { # NAMES (quoted, with commas) -> settings.tsv
  sql -c "select name, current_setting(name) from pg_settings where name in ($1)" > settings.tsv ||
    fail "the settings cannot be read back"
}

counters() { # WHEN -> state.WHEN: key, tab, value
  if [ "$major" -ge 17 ]; then
    asked="num_timed num_requested pg_stat_checkpointer"
  else
    asked="checkpoints_timed checkpoints_req pg_stat_bgwriter"
  fi
  set -- "$1" $asked
  sql > "state.$1" << END || fail "the server does not answer"
select 'commits', xact_commit from pg_stat_database where datname = 'bench';
select 'rollbacks', xact_rollback from pg_stat_database where datname = 'bench';
select 'blocks_hit', blks_hit from pg_stat_database where datname = 'bench';
select 'blocks_read', blks_read from pg_stat_database where datname = 'bench';
select 'deadlocks', deadlocks from pg_stat_database where datname = 'bench';
select 'wal_bytes', (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint;
select 'bytes', pg_database_size('bench');
select 'dead_tuples', coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables;
select 'autovacuums', coalesce(sum(autovacuum_count), 0)::bigint from pg_stat_user_tables;
select 'vacuums_running', count(*) from pg_stat_progress_vacuum;
select 'checkpoints_timed', $2 from $4;
select 'checkpoints_requested', $3 from $4;
END
}

