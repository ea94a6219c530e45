#!/bin/sh
# A satellite of system 65001: OSPF by lasers, in areas that follow from its own seat; eBGP with the stations it serves.
#
# PLANES planes are an area. The backbone is two rows of satellites through all planes, each the eastern neighbour of the one before:
# the next plane, the slot before (SLOTS in a plane). A laser along the rows or between them is in area 0; others within an area are
# the area's; those from area to area off the rows carry nothing.
set -eu
. /setup/told.sh

configure() {
    head_of_bird
    plane=$(field plane $told/node.json)
    slot=$(field slot $told/node.json)
    peers | awk -v plane="$plane" -v slot="$slot" -v planes="$PLANES" -v slots="$SLOTS" '
        function row(p, s) { return (p + s) % slots }
        $3 == "satellite" {
            split($2, part, "-"); p = substr(part[2], 2) + 0; s = substr(part[3], 2) + 0
            mine = row(plane, slot); theirs = row(p, s)
            if (mine < 2 && theirs < 2 && (p == plane || mine == theirs)) areas[0] = areas[0] port($1)
            else if (int(p / planes) == int(plane / planes)) areas[int(p / planes) + 1] = areas[int(p / planes) + 1] port($1)
        }
        # Who exports counts as a boundary of the system, and every boundary of every area is told to all others.
        $3 == "ground" { exported = "where source = RTS_BGP" }
        function port(name) { return "    interface \"" name "\" { type ptp; hello 15; dead 90; retransmit 15; };\n" }
        END {
            print "protocol ospf v2 { tick 2; ecmp off; ipv4 { import all; export " (exported ? exported : "none") "; };"
            for (number in areas) printf "  area %d { stubnet 10.128.0.0/9 { hidden yes; summary yes; };\n%s  };\n", number, areas[number]
            print "}"
        }'
    peers | while read -r port node class _ far; do
        [ "$class" = ground ] || continue
        session "$(echo "$node" | tr -c 'a-z0-9\n' _)" 65001 "$(address "$port")" "$far" "$(system_of "$node")" \
            "source ~ [RTS_BGP, RTS_OSPF_EXT1, RTS_OSPF_EXT2]"
    done
}
route
