#!/bin/sh
# A setup program of a satellite. It knows nothing of the constellation but what it is told in /run/constel: from that
# it writes BIRD's configuration, starts BIRD, and writes it anew when its links to the ground come and go.
#
# OSPF runs between satellites. The ground speaks no routing protocol: a satellite announces the nodes on the ground that it serves.
set -eu
told=/run/constel
config=/run/bird.conf
control=/run/bird.ctl

# The text of a field, where the document has it in a line of its own.
field() { sed -n "s/^ *\"$1\": \"\([^\"]*\)\",*\$/\1/p" "$2"; }

# Of each node on the ground that is linked: its own address, and that of its port.
served() {
    awk -F'"' '/"class"/ { class = $4; own = "" }
        /"ipv4":/ { if (own == "") own = $4; else if (class == "ground") print own, $4 }' $told/peers.json
}

configure() {
    own=$(field ipv4 $told/node.json)
    {
        echo "log stderr { warning, error, fatal, bug };"
        echo "router id $own;"
        echo "protocol device { scan time 60; }"
        echo "protocol kernel { scan time 300; ipv4 { import none; export filter {"
        echo "  if source ~ [RTS_DEVICE] then reject; krt_prefsrc = $own; accept; }; }; }"
        echo "protocol static { ipv4;"
        served | while read -r node port; do
            echo "  route $node/32 via $port;"
        done
        echo "}"
        echo "protocol ospf v2 { tick 1; ipv4 { import all; export where source = RTS_STATIC; };"
        echo "  area 0 { stubnet $own/32; stubnet 10.128.0.0/9 { hidden yes; summary yes; };"
        for port in $(field name $told/ports.json | grep '^isl'); do
            echo "    interface \"$port\" { type ptp; hello 1; dead 4; };"
        done
        echo "  }; }"
    } > $config.new
    mv $config.new $config
}

until [ -s $told/peers.json ]; do sleep 1; done
configure
bird -f -c $config -s $control &
bird=$!
trap 'kill $bird' TERM INT

# From here on every event is a line; one of the links is followed at once.
tail -n 0 -F $told/events | while read -r event; do
    case $event in
        *'"kind":"peers"'*gsl0*) configure && birdc -s $control configure > /run/configured ;;
    esac
done &
wait $bird
