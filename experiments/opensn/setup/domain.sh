#!/bin/sh
# A router on the ground: OSPF within its system, by cables; a station also speaks eBGP with the satellite that serves it.
set -eu
. /setup/told.sh
system=$(system_of "$(field name $told/node.json)")

configure() {
    head_of_bird
    # What stands behind it without routing: hosts.
    echo "protocol static hosts { ipv4;"
    peers | while read -r _ node class own far; do
        case $class-$node in host-*router*) ;; host-*) echo "  route $own/32 via $far;" ;; esac
    done
    echo "}"
    echo "protocol ospf v2 { tick 1; ipv4 { preference 150; import all; export where source ~ [RTS_BGP, RTS_STATIC]; };"
    echo "  area 0 { stubnet $own/32; stubnet 10.128.0.0/9 { hidden yes; summary yes; };"
    peers | while read -r port node class _ _; do
        case $port-$node in
            eth*-*router* | eth*-gs-*) echo "    interface \"$port\" { type ptp; hello 1; dead 4; };" ;;
        esac
    done
    echo "  }; }"
    peers | while read -r port node class _ far; do
        [ "$class" = satellite ] || continue
        session sky "$system" "$(address "$port")" "$far" 65001 "source ~ [RTS_OSPF, RTS_OSPF_EXT2, RTS_STATIC, RTS_DEVICE]"
    done
    echo "protocol direct { ipv4; interface \"lo\"; }"
}
route
