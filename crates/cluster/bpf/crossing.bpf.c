// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
//
// Frames of edges between machines, as raw Ethernet on the interface between them.
//
//   carrier's socket -> interface, egress   cst_leave: which edge? The addresses of the machine that it leads to.
//   interface -> listener's socket          cst_arrive: an edge of this lab, from the machine that has its port? Else it
//                                           goes nowhere.
//
// The first is Algorithm 2 of OpenSN with another key: there the sender's address names the edge, and so has one edge; here
// the edge is in the frame, and a port may have many. The second is a filter of our socket: no other frame of the host
// passes it. src/ethernet.rs mirrors the layouts.
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ADDRESS 6
#define SOURCE_AT 6
#define HEAD_AT 14
#define TRAILER 36

// Around a frame (src/underlay/frame.rs): VXLAN's header before it, and the edge first in what is behind.
struct head {
	__be32 flags;
	__be32 lab; // in the upper 24 bits
};

struct edge {
	__be32 from;
	__be32 to;
};

union machine {
	__u8 address[ADDRESS];
	__u64 word; // the address, and zeros behind it
};

// By port: the machine that has its node.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // set at load: ports
	__type(key, __u32);
	__type(value, __u32);
} cst_owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // set at load: machines
	__type(key, __u32);
	__type(value, union machine);
} cst_machines SEC(".maps");

// Frames of this lab's number that are none of its machines'.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} cst_strangers SEC(".maps");

const volatile __u32 ether_type = 0;
const volatile __u32 lab = 1;
const volatile __u32 here = 0;

// Whether the frame is of this lab, and of which edge.
static __always_inline int is_ours(struct __sk_buff *ctx, struct edge *edge)
{
	struct head head;

	if (bpf_skb_load_bytes(ctx, HEAD_AT, &head, sizeof(head)))
		return 0;
	if (head.flags != bpf_htonl(0x08000000) || head.lab != bpf_htonl(lab << 8))
		return 0;
	return !bpf_skb_load_bytes(ctx, ctx->len - TRAILER, edge, sizeof(*edge));
}

static __always_inline union machine *machine_of(__be32 port, __u32 *number)
{
	__u32 key = bpf_ntohl(port);
	__u32 *owner = bpf_map_lookup_elem(&cst_owners, &key);

	if (!owner)
		return 0;
	*number = *owner;
	return bpf_map_lookup_elem(&cst_machines, number);
}

SEC("tcx/egress")
int cst_leave(struct __sk_buff *ctx)
{
	struct {
		__u8 to[ADDRESS];
		__u8 from[ADDRESS];
	} addresses;
	union machine *far, *own;
	struct edge edge;
	__u32 number, self = here;

	if (ctx->protocol != bpf_htons(ether_type) || !is_ours(ctx, &edge))
		return TC_ACT_UNSPEC;
	far = machine_of(edge.to, &number);
	own = bpf_map_lookup_elem(&cst_machines, &self);
	if (!far || !own)
		return TC_ACT_SHOT;
	__builtin_memcpy(addresses.to, far->address, ADDRESS);
	__builtin_memcpy(addresses.from, own->address, ADDRESS);
	if (bpf_skb_store_bytes(ctx, 0, &addresses, sizeof(addresses), 0))
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC;
}

SEC("socket")
int cst_arrive(struct __sk_buff *ctx)
{
	union machine source = {.word = 0};
	union machine *far;
	struct edge edge;
	__u32 number, zero = 0, self = here;
	__u64 *strangers;

	// A promiscuous interface shows what is for others as well.
	if (ctx->pkt_type != PACKET_HOST || !is_ours(ctx, &edge) ||
	    bpf_skb_load_bytes(ctx, SOURCE_AT, source.address, ADDRESS))
		return 0;
	far = machine_of(edge.from, &number);
	if (far && number != self && source.word == far->word &&
	    machine_of(edge.to, &number) && number == self)
		return ctx->len;
	strangers = bpf_map_lookup_elem(&cst_strangers, &zero);
	if (strangers)
		__sync_fetch_and_add(strangers, 1);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
