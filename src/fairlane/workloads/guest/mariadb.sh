# MariaDB on a lane's volume; database.sh is before it. Set before: $folders, $oldest, $clients, $own_settings (names).
# shellcheck disable=SC2034,SC2154
title=MariaDB owner=mysql
sysbench_to="--db-driver=mysql --mysql-socket=$sock/sql --mysql-user=root --mysql-db=bench"

find_server() { # -> $bin (folder of mariadbd), $major (its version)
  PATH=$PATH:$(printf '%s\n' "$folders" | tr ' ' ':')
  for p in mariadbd mariadb-install-db mariadb; do
    command -v $p > /dev/null || fail "MariaDB is not installed on this machine (no $p in $folders or PATH)"
  done
  bin=$(dirname "$(command -v mariadbd)")
  major=$(mariadbd --no-defaults --version | sed 's/.* Ver \([0-9.]*\)-MariaDB.*/\1/')
  [ "$(printf '%s\n' "$oldest" "$major" | sort -V | head -n 1)" = "$oldest" ] ||
    fail "MariaDB $major is too old: expected $oldest or newer"
}

plain() { # lines of the server's log without time and thread
  sed 's/^[-0-9]* *[0-9:]* [0-9]* \[\([A-Z]\)/[\1/'
}

failure() {
  grep -E '\[ERROR\]' "$here/server.log" | plain | head -n 1 | cut -c 1-300 >&2
  if [ ! -e "/proc/$postmaster" ]; then echo "the server ended during the load" >&2; fi
}

configure() { # standard input: the study's settings
  ln -sfn "$data" "$sock/data" # mariadb-install-db takes no path with a space
  {
    echo '[mariadbd]'
    # what clients need; nothing is read into the pool beside the load
    printf '%s\n' "max_connections=$((clients + 20))" max_prepared_stmt_count=1048576 innodb_buffer_pool_load_at_startup=OFF \
      innodb_buffer_pool_dump_at_shutdown=OFF
    cat
    printf '%s\n' "datadir=$sock/data/db" "tmpdir=$sock/data/tmp" "socket=$sock/sql" "pid_file=$sock/pid" skip_networking
  } > "$here/fairlane.cnf"
  cp "$here/fairlane.cnf" "$sock/my.cnf" && chmod 644 "$sock/my.cnf" || fail "the server cannot be configured"
}

initialise() { # an empty server in $data
  make_owned "$data" "$data/db" "$data/tmp"
  configure < own.conf # the size of a page is chosen here
  as mariadb-install-db "--defaults-file=$sock/my.cnf" --auth-root-authentication-method=normal --skip-test-db \
    --skip-log-bin > install.out 2>&1 < /dev/null ||
    fail "mariadb-install-db failed: $(why < install.out || tail -n 1 install.out)"
}

why() { # standard input: the server's log -> the line that says what is wrong
  said=$(grep -E '\[ERROR\]' | grep -vE 'Aborting|Plugin .* (init function|registration)' | head -n 1 | plain)
  printf '%.250s\n' "$said"
  [ -n "$said" ]
}

start() { # starts the server on $data; its log is server.log
  as mariadbd "--defaults-file=$sock/my.cnf" > "$sock/log" 2>&1 < /dev/null &
  postmaster=$!
  i=0
  until sql -e 'select 1' > /dev/null 2>&1; do
    i=$((i + 1))
    if [ $i -gt 1200 ] || ! kill -0 $postmaster 2> /dev/null; then
      cp "$sock/log" "$here/server.log"
      fail "the server does not start: $(why < "$here/server.log")"
    fi
    sleep 0.1
  done
  started=1
}

sql() { mariadb --no-defaults -S "$sock/sql" -u root -N -B "$@"; }

create_database() {
  # only the template is made so, and synced at the end
  sql -e 'create database bench; set global innodb_flush_log_at_trx_commit = 0' || fail "the server does not answer"
}

keep_template() { # the running server's data, at rest, as $template
  sql -e 'set global innodb_fast_shutdown = 0; shutdown' || fail "the server does not answer"
  wait "$postmaster" || fail "the server does not stop"
  keep_data
}

status() { # NAME: a value of the running server
  sql -e "select variable_value from information_schema.global_status where variable_name = '$1'"
}

at_rest() {
  [ "$(status Innodb_history_list_length)" = 0 ] && [ "$(status Innodb_buffer_pool_pages_dirty)" = 0 ] &&
    [ "$(pending)" = 0 ]
}

pending() { # reads, writes and flushes that InnoDB waits for
  sql -e "select coalesce(sum(variable_value), 0) div 1 from information_schema.global_status where variable_name in
    ('Innodb_data_pending_reads', 'Innodb_data_pending_writes', 'Innodb_data_pending_fsyncs',
     'Innodb_os_log_pending_fsyncs', 'Innodb_os_log_pending_writes')"
}

rest() { # rest is read, not assumed: nothing to purge, no dirty page, no pending I/O
  share=$(sql -e 'select @@innodb_max_dirty_pages_pct') || fail "the server does not answer"
  sql -e 'set global innodb_max_dirty_pages_pct = 0' || fail "the server does not answer"
  i=0
  until at_rest; do
    i=$((i + 1))
    [ $i -lt 100 ] || break
    sleep 0.1
  done
  sql -e "set global innodb_max_dirty_pages_pct = $share" || fail "the server does not answer"
}

settings() { # NAMES (quoted, with commas) -> settings.tsv
  sql -e "select lower(variable_name), variable_value from information_schema.global_variables
    where variable_name in ($1)" > settings.tsv || fail "the settings cannot be read back"
  for n in $own_settings; do # the server takes abbreviations, too, and settings that only its start knows
    grep -q "^$n	" settings.tsv || fail "$n cannot be read back from the server: use the full name of a global variable"
  done
  printf 'server_version\t%s\n' "$major" >> settings.tsv
}

counters() { # WHEN -> state.WHEN: key, tab, value
  sql > "state.$1" << END || fail "the server does not answer"
select elt(field(variable_name, 'COM_COMMIT', 'COM_ROLLBACK', 'INNODB_BUFFER_POOL_READ_REQUESTS',
  'INNODB_BUFFER_POOL_READS', 'INNODB_DEADLOCKS', 'INNODB_OS_LOG_WRITTEN', 'INNODB_HISTORY_LIST_LENGTH',
  'INNODB_BUFFER_POOL_PAGES_DIRTY', 'INNODB_BUFFER_POOL_PAGES_FLUSHED', 'INNODB_LOG_WAITS', 'INNODB_ROW_LOCK_WAITS',
  'BINLOG_BYTES_WRITTEN'),
  'commits', 'rollbacks', 'page_requests', 'blocks_read', 'deadlocks', 'wal_bytes', 'history_length', 'dirty_pages',
  'pages_flushed', 'log_waits', 'lock_waits', 'binlog_bytes') as k, variable_value
from information_schema.global_status having k is not null;
END
  printf 'pending_io\t%s\nbytes\t%s\n' "$(pending)" "$(find "$data/db/bench" -name '*.ibd' -printf '%s\n' |
    awk '{ sum += $1 } END { printf "%.0f", sum }')" >> "state.$1"
}
