# What setup programs here read of what their node is told; `.` takes it in.
told=/run/constel

# The text of a field, where the document has it in a line of its own.
field() { sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},*\$/\1/p" "$2" | head -n 1; }

# Of each link, a line: port, far node, its class, its own address, the address of its port.
peers() {
    awk -F'"' '/"far":/ { far = 1 } /"port":/ && !far { port = $4 } /"node":/ { node = $4 } /"class":/ { class = $4 }
        /"ipv4":/ && !far { own = $4 } /"ipv4":/ && far { print port, node, class, own, $4; far = 0; own = "" }' $told/peers.json
}

# The address of a port of the node's own, without its length.
address() {
    awk -F'"' -v port="$1" '/"name":/ { name = $4 } /"ipv4":/ && name == port { sub("/.*", "", $4); print $4 }' $told/ports.json
}

# The number of a node's system: the file `systems` of `user/`, a line a node.
system_of() { awk -v node="$1" '$1 == node { print $2 }' $told/user/systems; }

# Of a satellite's lasers, a line: OSPF area, port. PLANES planes are an area. The backbone is two rows of satellites through all planes,
# each the eastern neighbour of the one before: the next plane, the slot before (SLOTS in a plane). A laser along the rows or between them
# is in area 0; others within an area are the area's; those from area to area off the rows carry nothing.
areas() {
    peers | awk -v plane="$(field plane $told/node.json)" -v slot="$(field slot $told/node.json)" -v planes="$PLANES" -v slots="$SLOTS" '
        function row(p, s) { return (p + s) % slots }
        $3 == "satellite" {
            split($2, part, "-"); p = substr(part[2], 2) + 0; s = substr(part[3], 2) + 0
            mine = row(plane, slot); theirs = row(p, s)
            if (mine < 2 && theirs < 2 && (p == plane || mine == theirs)) print 0, $1
            else if (int(p / planes) == int(plane / planes)) print int(p / planes) + 1, $1
        }'
}

# Waits until all nodes are there, and then for its turn: who begins while thousands begin finds nobody with time for it.
wait_for_turn() {
    until grep -q '"kind":"clock"' $told/events; do sleep 1; done
    usleep $(($(field number $told/node.json) * 25000))
    # What comes after these is not in the first configuration.
    read_events=$(wc -l < $told/events)
}

# Runs what follows each time when links to or from the ground come and go.
at_each_handover() {
    tail -n "+$((read_events + 1))" -F $told/events | while read -r event; do
        case $event in *'"kind":"peers"'*gsl0*) "$@" ;; esac
    done
}

# Runs BIRD on what `configure` writes, and has it read anew at each handover.
route() {
    wait_for_turn
    configure > /run/bird.conf
    bird -f -c /run/bird.conf -s /run/bird.ctl &
    bird=$!
    trap 'kill $bird' TERM INT
    at_each_handover reconfigure &
    wait $bird
}

reconfigure() {
    configure > /run/bird.conf.new && mv /run/bird.conf.new /run/bird.conf
    # On a busy machine it has perhaps not come to open its socket.
    until birdc -s /run/bird.ctl configure > /run/configured 2>&1; do sleep 1; done
}

# The head of BIRD's configuration.
head_of_bird() {
    own=$(field ipv4 $told/node.json)
    echo "log stderr { warning, error, fatal, bug };"
    echo "router id $own;"
    echo "protocol device { scan time 60; }"
    echo "protocol kernel { scan time 300; ipv4 { import none; export filter {"
    echo "  if source ~ [RTS_DEVICE] then reject; krt_prefsrc = $own; accept; }; }; }"
}

# An eBGP session: name, own system, own address, far address, far system, what is told.
session() {
    echo "protocol bgp $1 { local $3 as $2; neighbor $4 as $5; direct; hold time 30; keepalive time 10;"
    echo "  connect delay time 1; connect retry time 1; error wait time 1, 2;"
    echo "  ipv4 { import all; next hop self; export where $6; }; }"
}
