#!/bin/sh
# A satellite of system 65001 by BIRD: OSPF by lasers, in areas that follow from its own seat; eBGP with the stations it serves.
set -eu
. /setup/told.sh

configure() {
    head_of_bird
    # Who exports counts as a boundary of the system, and every boundary of every area is told to all others. The tag is for FRR, which
    # does not tell routes from outside from others once the kernel's table has them.
    exported=none
    ! peers | grep -q ' ground ' || exported="filter { if source != RTS_BGP then reject; ospf_tag = 1; accept; }"
    echo "protocol ospf v2 { tick 2; ecmp off; ipv4 { import all; export $exported; };"
    # FRR tells its lasers' addresses within an area, from where no boundary may tell them on: there are too many.
    areas | sort -n | awk '
        NR == 1 || $1 != area { if (NR > 1) print "  };"; area = $1; print "  area " area " { networks { 10.128.0.0/9 hidden; }; stubnet 10.128.0.0/9 { hidden yes; summary yes; };" }
        { print "    interface \"" $2 "\" { type ptp; hello 15; dead 90; retransmit 15; };" }
        END { if (NR) print "  };" }'
    echo "}"
    peers | while read -r port node class _ far; do
        [ "$class" = ground ] || continue
        session "$(echo "$node" | tr -c 'a-z0-9\n' _)" 65001 "$(address "$port")" "$far" "$(system_of "$node")" \
            "source ~ [RTS_BGP, RTS_OSPF_EXT1, RTS_OSPF_EXT2]"
    done
}
route
