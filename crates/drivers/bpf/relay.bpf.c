// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
//
// The kernel side of the relay driver.
//
//   node -> h<port> ... cst_capture: copies the frame into a slot of cst_slots, describes it in this
//                       CPU's ring, and consumes it. Userspace reads both through mmap: no system call.
//   AF_XDP on tb -> ta  cst_trunk: the outer VLAN tag (16 bits) names the port; redirects to its shard.
//   shard uplink        cst_shard: removes the tag and redirects into the node behind h<port>.
//   wire -> an interface of the host ... cst_external: captures from an interface that exists independently of the
//                       lab; the host's own traffic passes on to the host. AF_XDP sends on it directly.
// Warm-up packets (src/relay/warm_up.rs) pass the same way through a node of the relay's own, the warm-up node.
//
// The layouts below are mirrored in src/relay/layout.rs.
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define SLOT_BYTES 2048
// Offset of the EtherType in a slot. Before it: the addresses (12), room for the relay's tag (4) or for the relay's and
// the node's own tag (8), and AF_XDP's metadata (24).
#define TYPE_AT 48
#define ADDRESSES 12
#define TAG 4
#define BODY_MAX (SLOT_BYTES - TYPE_AT)
// EtherType and two bytes: the kernel does not remove the relay's tag from a shorter frame.
#define BODY_MIN 4

// Maximum number of the relay's threads.
#define THREADS_MAX 8

#define FLAG_CSUM 1
#define FLAG_VLAN 2
#define FLAG_GSO 4
#define FLAG_NEW 8
#define FLAG_BY_FRAMES 16

// A GSO frame (a super-frame of TCP or UDP: many frames not cut up yet) is stored in several slots, a piece in each.
// The slots are the next ones of this CPU's free ring.
#define PIECE_AT 64
#define PIECE (SLOT_BYTES - PIECE_AT)
#define PIECES_MAX 34
// Maximum number of frames of a super-frame. A node's TCP makes at most 128 (GSO_MAX_SEGS in src/relay/gso.rs). The
// count assumes the shortest headers instead of reading them, so it may be a few higher.
#define GSO_FRAMES_MAX 136
#define GSO_HEADERS_MIN 54
#define UDP_HEADERS_MIN 42
// Offset of the checksum in TCP's header.
#define TCP_CHECK 16
// Offset of the checksum in UDP's header.
#define UDP_CHECK 6
#define SKB_GSO_UDP_L4 (1 << 17)

#define CHECKSUM_PARTIAL 3

// IEEE 802.1ad, in network order: the tag of warm-up packets.
#define WARM_UP_TAG __builtin_bswap16(0x88a8)

struct desc {
	__u64 ts_ns;
	__u32 slot;
	__u32 ifindex;
	__u16 len; // without the relay's tag
	__u16 flags;
	__u16 csum_start; // from the first byte of a frame of `len` bytes
	__u16 csum_offset;
	__u32 gso_len; // length of a GSO frame, in bytes; `len` is then the number of its pieces
	__u16 segment; // payload of each of its frames
	__u16 vlan_tci; // of a GSO frame with a VLAN tag set by the node
};

struct slot {
	__u8 bytes[SLOT_BYTES];
};

// One per thread of the relay and CPU; counts that belong to no thread are those of the first. Each writer has its own
// cache lines.
struct cpu {
	// written here
	__u32 desc_head;
	__u32 free_tail;
	__u64 captured;
	__u64 dropped_pool; // no free slot
	__u64 dropped_ring; // descriptor ring full
	__u64 dropped_gso; // super-frame of another protocol than TCP and UDP, or of too many frames
	__u64 dropped_size; // larger than a slot, or shorter than 16 bytes
	__u64 dropped_error; // could not be read, or its checksum belongs outside of it
	__u64 trunk; // frames that reached cst_trunk
	__u64 delivered; // frames handed to a host end
	__u64 foreign; // frames on the trunk that the relay did not send
	__u64 before_start; // frames before the relay's thread started: no edge existed
	__u64 dropped_share; // the port held its share of the slots or of this ring already
	__u64 warmed_up; // warm-up packets that completed their path
	__u8 pad0[24];
	// written by userspace
	__u32 desc_tail;
	__u32 free_head;
	__u8 pad1[56];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set at load: slots
	__type(key, __u32);
	__type(value, struct slot);
} cst_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set at load: threads * CPUs * ring size
	__type(key, __u32);
	__type(value, struct desc);
} cst_descs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set at load: threads * CPUs * ring size
	__type(key, __u32);
	__type(value, __u64);
} cst_free SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set at load: threads * CPUs
	__type(key, __u32);
	__type(value, struct cpu);
} cst_cpus SEC(".maps");

// Number of slots that a port has taken so far, and of frames it lost because it held its share. Written here.
struct port {
	__u64 taken;
	__u64 dropped_share;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set at load: ports
	__type(key, __u32);
	__type(value, struct port);
} cst_ports SEC(".maps");

// Numbers of a port's slots that were returned and of its descriptors that were read so far; whether a super-frame of
// it had to be cut up; and the thread of its node. Written by userspace.
struct back {
	__u64 slots;
	__u64 descs;
	__u64 cut_up;
	__u64 thread;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set at load: ports
	__type(key, __u32);
	__type(value, struct back);
} cst_back SEC(".maps");

// Present values for all ports of a thread. A cache line each.
struct told {
	__u64 share; // slots that a port may hold
	__u64 thread; // the thread's own number
	__u64 asleep; // not 0 while it sleeps or is about to
	__u64 pad[5];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, THREADS_MAX);
	__type(key, __u32);
	__type(value, struct told);
} cst_told SEC(".maps");

// An interface of the host, by its index: the port of its frames, and its address.
struct external {
	__u32 port;
	__u16 mac[3];
	__u16 shared; // the host's own traffic still reaches the host
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct external);
} cst_externals SEC(".maps");

// Addresses of the host on such interfaces; IPv4 addresses in IPv4-mapped form.
struct own {
	__u32 ifindex;
	__u32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct own);
	__type(value, __u32);
} cst_own SEC(".maps");

// The ring buffer that a sleeping thread polls.
struct wake {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} cst_wake_0 SEC(".maps"), cst_wake_1 SEC(".maps"), cst_wake_2 SEC(".maps"), cst_wake_3 SEC(".maps"),
	cst_wake_4 SEC(".maps"), cst_wake_5 SEC(".maps"), cst_wake_6 SEC(".maps"), cst_wake_7 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, THREADS_MAX);
	__type(key, __u32);
	__array(values, struct wake);
} cst_wakes SEC(".maps") = {
	.values = { &cst_wake_0, &cst_wake_1, &cst_wake_2, &cst_wake_3, &cst_wake_4, &cst_wake_5,
		    &cst_wake_6, &cst_wake_7 },
};

const volatile __u32 ring_mask = 0; // descriptors and free slots per CPU, minus one
const volatile __u32 shard_ports = 400;
const volatile __u32 first_uplink = 100;
const volatile __u32 first_port = 1000;
const volatile __u32 cpus = 0;
// Difference between our clock and the kernel's, in two halves: in another time namespace they differ.
const volatile __u32 ahead_ns_low = 0;
const volatile __u32 ahead_ns_high = 0;

// Only the fields we read, found by name in the running kernel's own type information.
struct sk_buff {
	__u16 mac_header; // where the frame starts, from the same origin as csum_start
	__u16 csum_start;
	__u16 csum_offset;
	unsigned char *head;
	unsigned int end;
	__u8 ip_summed : 2;
	__u8 encapsulation : 1;
} __attribute__((preserve_access_index));

// This structure follows the data.
struct skb_shared_info {
	unsigned int gso_type;
} __attribute__((preserve_access_index));

struct task_struct {
	int pid; // the thread number that userspace sees
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym;

// Values that userspace wrote before this one must not be read earlier than it. x86 never reorders loads; elsewhere an
// atomic that returns its old value is a full barrier (clang 14 cannot emit BPF's load-acquire).
static __always_inline __u32 load_acquire(__u32 *at)
{
#ifdef __TARGET_ARCH_x86
	return *(volatile __u32 *)at;
#else
	return __sync_fetch_and_add(at, 0);
#endif
}

static __always_inline struct cpu *this_cpu(__u32 *nr)
{
	*nr = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&cst_cpus, nr);
}

// Whether the frame consists of many UDP datagrams, not of the fragments of one.
static __always_inline int is_udp_gso(struct sk_buff *skb)
{
	struct skb_shared_info *info = (void *)(BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, end));

	return skb->csum_offset == UDP_CHECK && BPF_CORE_READ(info, gso_type) & SKB_GSO_UDP_L4;
}

// Whether userspace can cut this super-frame up: it is TCP's or UDP's, not inside a tunnel, at most with a VLAN tag,
// and its checksum is still partial.
static __always_inline int is_gso(struct __sk_buff *ctx, struct sk_buff *skb)
{
	if ((skb->csum_offset != TCP_CHECK && !is_udp_gso(skb)) ||
	    BPF_CORE_READ_BITFIELD(skb, encapsulation) ||
	    BPF_CORE_READ_BITFIELD(skb, ip_summed) != CHECKSUM_PARTIAL)
		return 0;
	if (ctx->vlan_present && ctx->vlan_proto != __builtin_bswap16(0x8100))
		return 0;
	return ctx->protocol == __builtin_bswap16(0x0800) ||
	       ctx->protocol == __builtin_bswap16(0x86dd);
}

// Returns the maximum number of frames in a super-frame. A tiny gso_size makes tens of thousands of one.
static __always_inline __u32 gso_frames(struct __sk_buff *ctx, struct sk_buff *skb)
{
	__u32 size = ctx->gso_size, len = ctx->len;
	__u32 headers = skb->csum_offset == UDP_CHECK ? UDP_HEADERS_MIN : GSO_HEADERS_MIN;

	if (!size || len <= headers)
		return GSO_FRAMES_MAX + 1;
	return (len - headers + size - 1) / size;
}

// Copies the pieces of a GSO frame into the next slots of the free ring.
static __always_inline long copy_gso(struct __sk_buff *ctx, __u32 nr, __u32 tail, __u32 pieces)
{
	for (__u32 i = 0; i < PIECES_MAX; i++) {
		if (i >= pieces)
			return 0;
		__u32 key = nr * (ring_mask + 1) + ((tail + i) & ring_mask);
		__u64 *free = bpf_map_lookup_elem(&cst_free, &key);
		if (!free)
			return -1;
		__u32 slot = (__u32)*free;
		__u8 *at = bpf_map_lookup_elem(&cst_slots, &slot);
		if (!at)
			return -1;
		__u32 left = ctx->len - i * PIECE;
		if (left > PIECE)
			left = PIECE;
		asm volatile("" : "+r"(left));
		if (left > PIECE || left < 1 ||
		    bpf_skb_load_bytes(ctx, i * PIECE, at + PIECE_AT, left))
			return -1;
	}
	return 0;
}

// Captures the frame as one of this port. Every outcome is counted.
static __always_inline int capture(struct __sk_buff *ctx, __u32 port_key)
{
	__u32 nr = bpf_get_smp_processor_id(), thread = 0, key = port_key;
	__u32 slot, head, tail, filled;
	struct back *back = bpf_map_lookup_elem(&cst_back, &key);
	struct cpu *cpu;
	struct desc *desc;
	struct port *port;
	struct told *told;
	__u64 *free;
	__u8 *at;

	if (back)
		thread = (__u32)*(volatile __u64 *)&back->thread;
	// The node's own thread takes in all its frames, so that frames on the same path stay in order.
	nr += thread * cpus;
	cpu = bpf_map_lookup_elem(&cst_cpus, &nr);
	if (!cpu)
		return TC_ACT_SHOT;
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	__u32 body = ctx->len - ADDRESSES;
	__u32 slots = 1, frames = 1;
	if (ctx->gso_size) {
		frames = gso_frames(ctx, skb);
		if (!is_gso(ctx, skb) || frames > GSO_FRAMES_MAX) {
			cpu->dropped_gso++;
			return TC_ACT_SHOT;
		}
		slots = (ctx->len + PIECE - 1) / PIECE;
	} else if (body > BODY_MAX || body < BODY_MIN) {
		slots = 0;
	}
	if (slots < 1 || slots > PIECES_MAX) {
		cpu->dropped_size++;
		return TC_ACT_SHOT;
	}
	tail = cpu->free_tail;
	filled = load_acquire(&cpu->free_head);
	if (!tail && !filled) {
		// No slot was ever taken and none is there: the ring has not been filled yet.
		cpu->before_start++;
		return TC_ACT_SHOT;
	}
	port = bpf_map_lookup_elem(&cst_ports, &key);
	told = bpf_map_lookup_elem(&cst_told, &thread);
	if (!port || !back || !told) {
		cpu->dropped_error++;
		return TC_ACT_SHOT;
	}
	// Super-frames that will be cut up are charged for the slots that their frames will take.
	__u32 charged = slots, by_frames = 0;
	if (frames > slots && *(volatile __u64 *)&back->cut_up) {
		charged = frames;
		by_frames = FLAG_BY_FRAMES;
	}
	// A port that floods must leave room for the others. Of all slots it may hold the share that userspace computes, and
	// of this CPU's slots at most as many as are still free. However many ports flood, each of them stops while there is
	// room left for a port that does not.
	__u64 taken = *(volatile __u64 *)&port->taken;
	__s64 held = taken - *(volatile __u64 *)&back->slots;
	__s64 waiting = taken - *(volatile __u64 *)&back->descs;
	head = cpu->desc_head;
	if (head - load_acquire(&cpu->desc_tail) > ring_mask) {
		cpu->dropped_ring++;
		return TC_ACT_SHOT;
	}
	__u32 room = filled - tail;
	if ((waiting > 0 && waiting + charged > room) ||
	    held + charged > (__s64)*(volatile __u64 *)&told->share) {
		cpu->dropped_share++;
		__sync_fetch_and_add(&port->dropped_share, 1);
		return TC_ACT_SHOT;
	}
	if (room < slots) {
		cpu->dropped_pool++;
		return TC_ACT_SHOT;
	}
	key = nr * (ring_mask + 1) + (tail & ring_mask);
	free = bpf_map_lookup_elem(&cst_free, &key);
	desc = bpf_map_lookup_elem(&cst_descs, &(__u32){ nr * (ring_mask + 1) + (head & ring_mask) });
	if (!free || !desc) {
		cpu->dropped_error++;
		return TC_ACT_SHOT;
	}
	slot = (__u32)*free;
	at = bpf_map_lookup_elem(&cst_slots, &slot);
	if (!at) {
		cpu->dropped_error++;
		return TC_ACT_SHOT;
	}

	// Frames that a node forwards, or sends in answer to a frame, leave it while its relay thread delivers that frame: the
	// current task is then that thread.
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 flags = (__u64)task->pid == *(volatile __u64 *)&told->thread ? 0 : FLAG_NEW;
	__u32 own_tag = 0;
	if (ctx->gso_size) {
		if (copy_gso(ctx, nr, tail, slots)) {
			cpu->dropped_error++;
			return TC_ACT_SHOT;
		}
		desc->gso_len = ctx->len;
		desc->segment = ctx->gso_size;
		desc->vlan_tci = ctx->vlan_tci;
		desc->len = slots;
		desc->flags = flags | FLAG_CSUM | FLAG_GSO | by_frames |
			      (ctx->vlan_present ? FLAG_VLAN : 0);
		desc->csum_start = skb->csum_start - skb->mac_header;
		desc->csum_offset = skb->csum_offset;
		goto publish;
	}
	if (ctx->vlan_present) {
		// The kernel removed the node's own tag from the frame; put it back.
		__u16 *tag = (__u16 *)(at + TYPE_AT - TAG);
		tag[0] = (__u16)ctx->vlan_proto;
		tag[1] = __builtin_bswap16((__u16)ctx->vlan_tci);
		own_tag = TAG;
	}
	long err;
	// The addresses are stored four bytes before the rest, to leave room for the relay's tag.
	if (own_tag)
		err = bpf_skb_load_bytes(ctx, 0, at + TYPE_AT - ADDRESSES - 2 * TAG, ADDRESSES);
	else
		err = bpf_skb_load_bytes(ctx, 0, at + TYPE_AT - ADDRESSES - TAG, ADDRESSES);
	// Keep the compiler from losing the bounds established above, which the verifier needs.
	asm volatile("" : "+r"(body));
	if (body > BODY_MAX || body < BODY_MIN || err ||
	    bpf_skb_load_bytes(ctx, ADDRESSES, at + TYPE_AT, body)) {
		cpu->dropped_error++;
		return TC_ACT_SHOT;
	}

	__u32 len = ADDRESSES + own_tag + body;
	if (BPF_CORE_READ_BITFIELD(skb, ip_summed) == CHECKSUM_PARTIAL) {
		__u16 start = skb->csum_start - skb->mac_header + own_tag;
		// AF_XDP would refuse the frame, and everything behind it.
		if (start + skb->csum_offset + 2 > len) {
			cpu->dropped_error++;
			return TC_ACT_SHOT;
		}
		flags |= FLAG_CSUM;
		desc->csum_start = start;
		desc->csum_offset = skb->csum_offset;
	}
	desc->len = len;
	desc->flags = flags | (own_tag ? FLAG_VLAN : 0);
publish:
	desc->slot = slot;
	desc->ifindex = first_port + port_key;
	cpu->free_tail = tail + slots;
	__sync_fetch_and_add(&port->taken, charged);
	cpu->captured++;
	desc->ts_ns = bpf_ktime_get_ns() + (((__u64)ahead_ns_high << 32) | ahead_ns_low);
	// Publish: a full barrier, after the descriptor is written and before `asleep` is read. A thread that falls asleep
	// does it in the reverse order.
	__sync_lock_test_and_set(&cpu->desc_head, head + 1);

	if (*(volatile __u64 *)&told->asleep && __sync_lock_test_and_set(&told->asleep, 0)) {
		void *wake = bpf_map_lookup_elem(&cst_wakes, &thread);
		__u64 nothing = 0;

		if (wake)
			bpf_ringbuf_output(wake, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
	}
	// The frame is consumed. (tcx has no TC_ACT_STOLEN; this result does not count as a device's drop either.)
	return TC_ACT_SHOT;
}

SEC("tcx/ingress")
int cst_capture(struct __sk_buff *ctx)
{
	__u32 nr;

	if (ctx->ifindex < first_port) {
		// On the warm-up node's interface: the warm-up packet has completed its path.
		struct cpu *cpu = this_cpu(&nr);
		if (cpu)
			cpu->warmed_up++;
		return TC_ACT_SHOT;
	}
	return capture(ctx, ctx->ifindex - first_port);
}

// Whether an ARP packet or an IPv6 neighbour solicitation requests an address of the host on this interface.
static __always_inline int asks_for_own(struct __sk_buff *ctx)
{
	struct own own = { .ifindex = ctx->ifindex };

	if (ctx->protocol == __builtin_bswap16(0x0806)) {
		// The target address of ARP over IPv4, in IPv4-mapped form.
		own.address[2] = __builtin_bswap32(0xffff);
		if (bpf_skb_load_bytes(ctx, 14 + 24, &own.address[3], 4))
			return 0;
	} else if (ctx->protocol == __builtin_bswap16(0x86dd)) {
		__u8 next, type;
		if (bpf_skb_load_bytes(ctx, 14 + 6, &next, 1) || next != 58 ||
		    bpf_skb_load_bytes(ctx, 14 + 40, &type, 1) || type != 135 ||
		    bpf_skb_load_bytes(ctx, 14 + 48, own.address, 16))
			return 0;
	} else {
		return 0;
	}
	return bpf_map_lookup_elem(&cst_own, &own) != 0;
}

SEC("tcx/ingress")
int cst_external(struct __sk_buff *ctx)
{
	__u32 ifindex = ctx->ifindex;
	struct external *external = bpf_map_lookup_elem(&cst_externals, &ifindex);
	__u16 to[3], from[3];

	if (!external || bpf_skb_load_bytes(ctx, 0, to, 6) || bpf_skb_load_bytes(ctx, 6, from, 6))
		return TC_ACT_UNSPEC;
	if (!external->shared)
		return capture(ctx, external->port);
	// The host's own traffic: frames to the host, or from it.
	if ((to[0] == external->mac[0] && to[1] == external->mac[1] && to[2] == external->mac[2]) ||
	    (from[0] == external->mac[0] && from[1] == external->mac[1] &&
	     from[2] == external->mac[2]))
		return TC_ACT_UNSPEC;
	// The least significant bit of the first byte marks a group, to which the host belongs too.
	if (*(__u8 *)to & 1) {
		if (!ctx->vlan_present && asks_for_own(ctx))
			return TC_ACT_UNSPEC;
		capture(ctx, external->port);
		return TC_ACT_UNSPEC;
	}
	return capture(ctx, external->port);
}

SEC("tcx/ingress")
int cst_trunk(struct __sk_buff *ctx)
{
	__u32 nr;
	struct cpu *cpu = this_cpu(&nr);

	if (!cpu)
		return TC_ACT_SHOT;
	if (!ctx->vlan_present) {
		cpu->foreign++;
		return TC_ACT_SHOT;
	}
	cpu->trunk++;
	return bpf_redirect_peer(first_uplink + (ctx->vlan_tci & 0xffff) / shard_ports, 0);
}

SEC("tcx/ingress")
int cst_shard(struct __sk_buff *ctx)
{
	__u32 nr, port = ctx->vlan_tci & 0xffff;
	struct cpu *cpu = this_cpu(&nr);

	if (!cpu)
		return TC_ACT_SHOT;
	int warm_up = ctx->vlan_proto == WARM_UP_TAG;
	if (!ctx->vlan_present || bpf_skb_vlan_pop(ctx)) {
		cpu->foreign++;
		return TC_ACT_SHOT;
	}
	if (warm_up)
		return bpf_redirect_peer(first_port - 1, 0);
	cpu->delivered++;
	return bpf_redirect_peer(first_port + port, 0);
}

_Static_assert(sizeof(struct cpu) == 192 && sizeof(struct desc) == 32, "layout.rs");
_Static_assert(sizeof(struct back) == 32 && sizeof(struct told) == 64, "layout.rs");
_Static_assert(sizeof(struct external) == 12 && sizeof(struct own) == 20, "external.rs");

char LICENSE[] SEC("license") = "Dual MIT/GPL";
