#!/bin/bash
# Does FRR's isisd carry routes of level 1 into level 2 (RFC 1195; RFC 5302)? Three nodes in a row: level 1, both, level 2.
# Prints what each reaches. Root, FRR; network namespaces of its own, removed at the end.
set -eu
here=$(mktemp -d) mark=constel-isis-$$
clean() {
    for pid in "$here"/*/*.pid; do kill "$(cat "$pid")" 2>/dev/null || true; done
    for n in 1 2 3; do ip netns del "$mark-$n" 2>/dev/null || true; done
    rm -rf "$here"
}
trap clean EXIT
chmod 755 "$here"
for n in 1 2 3; do
    ip netns add "$mark-$n"
    ip -n "$mark-$n" link set lo up
    ip -n "$mark-$n" addr add 10.99.0.$n/32 dev lo
done
wire() { # NODE NAME ADDRESS NODE NAME ADDRESS
    ip -n "$mark-$1" link add "$2" type veth peer name "$5" netns "$mark-$4"
    ip -n "$mark-$1" addr add "$3" dev "$2"
    ip -n "$mark-$4" addr add "$6" dev "$5"
    ip -n "$mark-$1" link set "$2" up
    ip -n "$mark-$4" link set "$5" up
}
wire 1 a1 10.98.0.0/31 2 a2 10.98.0.1/31
wire 2 b2 10.98.1.0/31 3 b3 10.98.1.1/31
start() { # NODE AREA TYPE INTERFACE...
    local d=$here/$1 node=$1 area=$2 type=$3
    shift 3
    mkdir "$d"
    {
        printf 'interface lo\n ip router isis x\n isis passive\n'
        for i in "$@"; do printf 'interface %s\n ip router isis x\n isis network point-to-point\n isis hello-interval 1\n' "$i"; done
        printf 'router isis x\n net 49.%s.0000.0000.000%s.00\n is-type %s\n metric-style wide\n' "$area" "$node" "$type"
    } > "$d/isisd.conf"
    : > "$d/zebra.conf"
    chown -R frr:frr "$d"
    for program in zebra isisd; do
        ip netns exec "$mark-$node" "/usr/lib/frr/$program" -d -f "$d/$program.conf" -i "$d/$program.pid" -z "$d/z.sock" --vty_socket "$d" -A 127.0.0.1 -P 0 --log file:"$d/log"
    done
}
start 1 0001 level-1 a1
start 2 0001 level-1-2 a2 b2
start 3 0002 level-2-only b3
# Both neighbourships stand when node 2 reaches both others; the last look is 10 s later.
for _ in $(seq 60); do
    [ "$(ip -n "$mark-2" route show proto isis | grep -c '^10\.99\.0\.')" = 2 ] && break
    sleep 0.5
done
sleep 10
/usr/lib/frr/isisd --version | head -1
for n in 1 2 3; do
    echo "node $n reaches: $(ip -n "$mark-$n" route show proto isis | awk '{print $1}' | tr '\n' ' ')"
done
if ip -n "$mark-3" route show proto isis | grep -q '^10\.99\.0\.1 '; then
    echo "level 1's routes are carried into level 2"
else
    echo "level 1's routes are NOT carried into level 2: node 3 cannot reach node 1"
fi
