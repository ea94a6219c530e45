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

# Runs BIRD on what `configure` writes, and has it read anew when links to or from the ground come and go.
route() {
    # When all are there, one after the other: who begins while thousands begin finds nobody with time for it.
    until grep -q '"kind":"clock"' $told/events; do sleep 1; done
    usleep $(($(field number $told/node.json) * 25000))
    # What comes after these is not in the first configuration.
    read_events=$(wc -l < $told/events)
    configure > /run/bird.conf
    bird -f -c /run/bird.conf -s /run/bird.ctl &
    bird=$!
    trap 'kill $bird' TERM INT
    tail -n "+$((read_events + 1))" -F $told/events | while read -r event; do
        case $event in
            *'"kind":"peers"'*gsl0*)
                configure > /run/bird.conf.new && mv /run/bird.conf.new /run/bird.conf
                # On a busy machine it has perhaps not come to open its socket.
                until birdc -s /run/bird.ctl configure > /run/configured 2>&1; do sleep 1; done
                ;;
        esac
    done &
    wait $bird
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
