#!/bin/sh
# Makes the recorded fixtures of fio_json, fio_text, fio_log and fio_hist with the fio on the PATH: sh record_fio.sh FOLDER
# Rates are capped so that there are few bins, and files stay small.
set -eu
mkdir -p "$1"
cd "$1"
head -c 16777216 /dev/urandom > disk
common="--filename=disk --size=16m --ioengine=libaio --direct=1 --time_based --randrepeat=0 --randseed=7 --eta=never"
run() { # NAME OPTIONS...
  name=$1
  shift
  # shellcheck disable=SC2086
  fio $common "$@" --output="$name"
}
run plus.json --lat_percentiles=1 --clat_percentiles=1 --slat_percentiles=1 --runtime=500ms --ramp_time=100ms \
  --name=mix --rw=randrw --rwmixread=70 --bs=4k --iodepth=8 --numjobs=2 --rate_iops=700,300 --output-format=json+
run plain.json --runtime=500ms --name=plain --rw=randread --bs=4k --iodepth=4 --rate_iops=3000 --output-format=json
run plain-lat.json --lat_percentiles=1 --clat_percentiles=0 --runtime=500ms --name=plain --rw=randread --bs=4k \
  --iodepth=4 --rate_iops=3000 --output-format=json
run group.json --lat_percentiles=1 --runtime=500ms --group_reporting --name=group --rw=randread --bs=4k --iodepth=4 \
  --numjobs=4 --rate_iops=300 --output-format=json+
run group-mixed.json --lat_percentiles=1 --runtime=500ms --group_reporting --iodepth=4 --rate_iops=300 \
  --name=small --rw=randread --bs=4k --name=large --rw=randread --bs=64k --output-format=json
run capped.json --lat_percentiles=1 --runtime=1 --name=capped --rw=randrw --rwmixread=70 --rate_iops=500 --bs=4k \
  --iodepth=8 --output-format=json+
run beside.json --lat_percentiles=1 --runtime=500ms --rate_iops=300 --iodepth=2 --name=reader --rw=randread --bs=4k \
  --name=writer --rw=write --bs=64k --output-format=json
run status.json --runtime=3 --name=status --rw=randread --bs=4k --rate_iops=500 --status-interval=1 \
  --output-format=json
run warned.json --runtime=100ms --name=warned --rw=randread --bs=4k --rate_iops=500 --output-format=normal,json
run terse.txt --runtime=100ms --name=terse --rw=randread --bs=4k --rate_iops=500 --output-format=terse
run normal.txt --runtime=100ms --name=normal --rw=randread --bs=4k --rate_iops=500 --output-format=normal
fio --eta=never --name=full --filename=/dev/full --size=1m --rw=write --bs=4k --output-format=json \
  --output=failed.json || true
run both-group.txt --runtime=1 --name=mix --rw=randrw --rwmixread=70 --bs=8k --iodepth=4 --numjobs=3 --group_reporting \
  --rate_iops=300,150 --output-format=normal,json+
run both-clones.txt --lat_percentiles=1 --runtime=1 --name=clone --rw=randwrite --bs=16k --numjobs=2 --rate_iops=400 \
  --output-format=normal,json+
run both-stonewall.txt --lat_percentiles=1 --clat_percentiles=1 --runtime=1 --iodepth=2 --rate_iops=600 --name=reads \
  --rw=randread --bs=4k --name=writes --stonewall --rw=write --bs=64k --ramp_time=200ms --output-format=normal,json+
cat > stonewall.fio <<'JOBS'
[global]
filename=disk
size=16m
ioengine=libaio
direct=1
time_based
runtime=500ms
bs=8k
iodepth=4
rate_iops=400
lat_percentiles=1
[reads]
rw=randread
[writes]
stonewall
rw=randwrite
JOBS
fio --eta=never --output-format=json+ --output=stonewall.json stonewall.fio
cat > clients.fio <<'JOBS'
[global]
filename=disk
size=16m
ioengine=libaio
direct=1
time_based
runtime=500ms
bs=8k
iodepth=4
rate_iops=200
lat_percentiles=1
[cs]
rw=randread
numjobs=2
JOBS
fio --server=127.0.0.1,18765 > server1.out 2>&1 &
one=$!
fio --server=127.0.0.1,18766 > server2.out 2>&1 &
two=$!
sleep 1
fio --eta=never --output-format=json+ --output=clients.json --client=127.0.0.1,18765 clients.fio \
  --client=127.0.0.1,18766 clients.fio
kill $one $two
run io.json --lat_percentiles=1 --clat_percentiles=1 --slat_percentiles=1 --runtime=500ms --name=io --rw=randrw \
  --rwmixread=70 --rate_iops=700,300 --bs=4k --iodepth=8 --numjobs=2 --write_lat_log=io --write_iops_log=io --write_bw_log=io --output-format=json+
run epoch.json --runtime=300ms --ramp_time=100ms --name=epoch --rw=randread --bs=4k --iodepth=4 --rate_iops=1000 \
  --write_lat_log=epoch --log_unix_epoch=1 --log_offset=1 --log_prio=1 --output-format=json
run avg.json --runtime=2 --name=avg --rw=randrw --bs=4k --iodepth=4 --rate_iops=1000 --write_lat_log=avg \
  --write_iops_log=avg --write_bw_log=avg --log_avg_msec=250 --output-format=json
run hist.json --runtime=1 --name=hist --rw=randrw --bs=4k --iodepth=4 --numjobs=2 --rate_iops=400 \
  --write_hist_log=hist --log_hist_msec=250 --output-format=json+
run coarse.json --runtime=1 --name=coarse --rw=randread --bs=4k --iodepth=4 --rate_iops=400 \
  --write_hist_log=coarse --log_hist_msec=250 --log_hist_coarseness=3 --output-format=json+
