// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
//
// Forwarding by one map that all nodes of a lab share, in front of their kernels' own tables.
//
//   node's port, ingress   cst_forward: looks up the route of this node to the destination, decrements the TTL or hop
//                          limit, writes the new MAC addresses and sends the frame out at the route's port.
//
// Everything that is not plain transit passes to the node's kernel as if this program did not exist: frames for the node
// itself and for destinations without an entry, packets whose TTL expires, options, fragments, packets too large for the
// next link, and everything that a router must not forward. src/lib.rs mirrors the layouts.
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FRAGMENT 0x3fff // more fragments follow, or not the first one
#define HOP_BY_HOP 0

// Only the fields we read, found by name in the running kernel's own type information.
struct net_device {
	int group; // the node's number + 1
} __attribute__((preserve_access_index));

struct sk_buff {
	struct net_device *dev;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym;

// A destination. IPv4 addresses are mapped to IPv6 (::ffff:a.b.c.d), so that both families share one key.
struct goal {
	__be32 words[4];
};

// Number of each destination. Never changes.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); // set at load
	__type(key, struct goal);
	__type(value, __u32);
} cst_goals SEC(".maps");

// The routes: one row per node, one entry per destination in a row. An entry is one word, so that a change is atomic:
// interface (16 bits; 0: no route), the port that the frame leaves (24) and the port that it reaches (24).
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set at load: nodes * destinations
	__type(key, __u32);
	__type(value, __u64);
} cst_ways SEC(".maps");

const volatile __u32 nodes = 0;
const volatile __u32 goals = 1;
const volatile __u32 mac_prefix = 0; // the first three bytes of all ports' addresses, in the upper bytes

// The route of this node to the destination `to`; 0: the frame passes to the node's kernel.
static __always_inline __u64 way_to(struct __sk_buff *ctx, struct goal *to)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	__u32 node = skb->dev->group - 1;
	__u32 *goal, key;
	__u64 *way;

	if (node >= nodes)
		return 0;
	goal = bpf_map_lookup_elem(&cst_goals, to);
	if (!goal)
		return 0;
	key = node * goals + *goal;
	way = bpf_map_lookup_elem(&cst_ways, &key);
	return way ? *(volatile __u64 *)way : 0;
}

static __always_inline void put_mac(__u8 *at, __u32 port)
{
	at[0] = mac_prefix >> 24;
	at[1] = mac_prefix >> 16;
	at[2] = mac_prefix >> 8;
	at[3] = port >> 16;
	at[4] = port >> 8;
	at[5] = port;
}

// Whether the frame fits the MTU of that interface; a GSO frame is judged by its segments.
static __always_inline int fits(struct __sk_buff *ctx, __u32 ifindex)
{
	__u32 mtu = 0;

	return !bpf_check_mtu(ctx, ifindex, &mtu, 0, BPF_MTU_CHK_SEGS);
}

SEC("tcx/ingress")
int cst_forward(struct __sk_buff *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct goal to = {};
	__u32 ifindex;
	__u64 way;

	if (ctx->pkt_type != PACKET_HOST || ctx->vlan_present)
		return TC_ACT_UNSPEC;
	if (ctx->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data + ETH_HLEN;
		__u32 sum = 0;

		if ((void *)(ip + 1) > end || *(__u8 *)ip != 0x45)
			return TC_ACT_UNSPEC;
		if (ip->ttl <= 1 || (ip->frag_off & bpf_htons(FRAGMENT)) ||
		    bpf_ntohs(ip->tot_len) > ctx->len - ETH_HLEN)
			return TC_ACT_UNSPEC;
		// Routers must not forward packets with these source addresses (RFC 1812, 5.3.7).
		__u8 from = bpf_ntohl(ip->saddr) >> 24;
		if (from == 0 || from == 127 || from >= 224)
			return TC_ACT_UNSPEC;
		// They must not forward packets with a wrong header checksum either (5.2.2).
		for (int i = 0; i < 10; i++)
			sum += ((__u16 *)ip)[i];
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		if (sum != 0xffff)
			return TC_ACT_UNSPEC;
		to.words[2] = bpf_htonl(0xffff);
		to.words[3] = ip->daddr;
		way = way_to(ctx, &to);
		ifindex = way >> 48;
		if (!ifindex || !fits(ctx, ifindex))
			return TC_ACT_UNSPEC;
		// Incremental checksum update (RFC 1624): only the TTL byte changes.
		sum = ip->check + bpf_htons(0x0100);
		ip->check = sum + (sum >= 0xffff);
		ip->ttl--;
	} else if (ctx->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data + ETH_HLEN;

		if ((void *)(ip + 1) > end || ip->version != 6)
			return TC_ACT_UNSPEC;
		if (ip->hop_limit <= 1 || ip->nexthdr == HOP_BY_HOP ||
		    bpf_ntohs(ip->payload_len) > ctx->len - ETH_HLEN - sizeof(*ip))
			return TC_ACT_UNSPEC;
		// Routers must not forward packets from link-local addresses (RFC 4291, 2.5.6), multicast groups, :: and ::1.
		// IPv4-mapped addresses begin with a zero word as ::1 does and are refused too.
		__be32 from = ip->saddr.in6_u.u6_addr32[0];
		if ((from & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000) ||
		    (from & bpf_htonl(0xff000000)) == bpf_htonl(0xff000000) || !from)
			return TC_ACT_UNSPEC;
		__builtin_memcpy(&to, &ip->daddr, sizeof(to));
		if (!to.words[0])
			return TC_ACT_UNSPEC;
		way = way_to(ctx, &to);
		ifindex = way >> 48;
		if (!ifindex || !fits(ctx, ifindex))
			return TC_ACT_UNSPEC;
		ip->hop_limit--;
	} else {
		return TC_ACT_UNSPEC;
	}
	put_mac(eth->h_dest, way & 0xffffff);
	put_mac(eth->h_source, (way >> 24) & 0xffffff);
	return bpf_redirect(ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
