// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
//
// The edt driver: edges as departure times (EDT), enforced by sch_fq.
//
//   node -> h<port>     cst_steer: finds the frame's edges. One copy for each goes to the trunk.
//   trunk f<k>, egress  cst_depart: the edge's model gives the frame its departure time or drops it; the
//                       trunk's fq holds it until then. Each edge is a flow of its own.
//   trunk g<k>          cst_arrive: records the lateness and passes the frame into the node behind h<to>.
//
// The departure time is set at the egress of the device that has the fq: elsewhere the kernel clears it
// for all packets that are not IP. The layouts below are mirrored in src/edt/layout.rs.
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/if_packet.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define NS_PER_S 1000000000ULL
#define NS_BITS_PER_BYTE 8000000000ULL
#define TAG 4

#define EDGE_EXISTS 1
#define EDGE_DOWN 2
#define EDGE_LOSES_ALL 4

// Parameters of an edge. There are two of each: in the bank of the active epoch, and in the one being prepared.
struct params {
	__u64 t0_ns;
	__u64 delay_ns; // at t0_ns
	__s64 slope_ns_per_s; // within +-1e9
	__u64 rate_bps; // 0: service takes no time
	__u64 queue_bytes; // may wait for service, at most 2e9
	__u64 loss; // the frame is lost if its draw is below this
	__u64 up_from_ns;
	__u64 rng[4]; // initial state of this life's generator
	__u32 life; // changes with every life of the edge in this slot; its state is then reset
	__u32 to;
	__u32 next; // slot + 1 of the next edge that leaves the same port
	__u32 flags;
	__u32 overhead_bytes;
	__u32 flow; // the edge's flow in the fq
	__u64 ce_above_ns; // frames that wait longer for service are marked, if their sender supports ECN
	__u64 reserved;
};

struct port {
	__u32 first; // slot + 1
	__u32 edges;
};

struct state {
	struct bpf_spin_lock lock;
	__u32 life;
	__u64 free_ns; // the service of all frames so far ends at free_ns + rem / rate
	__u64 rem;
	__u64 last_due_ns;
	__u64 rng[4];
	__u64 offered;
	__u64 offered_bytes;
	__u64 accepted;
	__u64 accepted_bytes;
	__u64 dropped_queue;
	__u64 dropped_loss;
	__u64 dropped_outage;
	__u64 marked;
};

// Buckets of the lateness histogram: four for each power of two.
#define LATENESS_BUCKETS 160

// One per CPU, written by that CPU alone.
struct counts {
	__u64 steered;
	__u64 no_edge;
	__u64 dropped_gso; // super-frame
	__u64 dropped_size; // frame shorter than an Ethernet header
	__u64 dropped_copy; // a copy could not be made or sent
	__u64 gone; // the edge vanished between steering and departure
	__u64 released;
	__u64 released_bytes;
	__u64 early; // released before its time: always 0
	__u64 foreign; // frame on the trunk that the driver did not send
	__u64 lateness[LATENESS_BUCKETS];
};

struct key {
	__u32 from;
	__u32 to;
};

struct shared {
	__u32 epoch; // the lowest bit selects the active bank
	__u32 reserved;
	__u64 tai_minus_real_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set at load: 2 * edges
	__type(key, __u32);
	__type(value, struct params);
} edt_params SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set at load: 2 * ports
	__type(key, __u32);
	__type(value, struct port);
} edt_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // set at load: edges
	__type(key, __u32);
	__type(value, struct state);
} edt_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); // set at load: edges
	__type(key, struct key);
	__type(value, __u32); // slot
} edt_index SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} edt_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shared);
} edt_shared SEC(".maps");

const volatile __u32 trunk_mask = 0; // trunks, minus one
const volatile __u32 first_trunk = 64; // index of f0; g0 has the next one, and so on
const volatile __u32 first_port = 1000;

static __always_inline struct counts *counts_here(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&edt_counts, &zero);
}

static __always_inline __u32 bank_in_force(void)
{
	__u32 zero = 0;
	struct shared *shared = bpf_map_lookup_elem(&edt_shared, &zero);

	return shared ? *(volatile __u32 *)&shared->epoch & 1 : 0;
}

static __always_inline struct params *params_of(__u32 slot, __u32 bank)
{
	__u32 key = 2 * slot + bank;
	return bpf_map_lookup_elem(&edt_params, &key);
}

// Mark of a frame for the edge in a slot. It contains the bank, so that all copies of a frame use the same table even
// if another bank becomes active between them.
static __always_inline __u32 mark_of(__u32 slot, __u32 bank)
{
	return 2 * slot + bank + 1;
}

static __always_inline __u32 trunk_of(__u32 slot)
{
	return first_trunk + 2 * (slot & trunk_mask);
}

struct walk {
	struct __sk_buff *ctx;
	__u32 bank;
	__u32 next;
	__u32 failed;
};

// Sends a copy of the frame over one edge of a port.
static long copy_to_edge(__u32 i, struct walk *walk)
{
	struct params *params;
	__u32 slot;

	if (!walk->next)
		return 1;
	slot = walk->next - 1;
	params = params_of(slot, walk->bank);
	if (!params)
		return 1;
	walk->next = params->next;
	walk->ctx->mark = mark_of(slot, walk->bank);
	if (bpf_clone_redirect(walk->ctx, trunk_of(slot), 0) < 0)
		walk->failed++;
	return 0;
}

SEC("tc")
int cst_steer(struct __sk_buff *ctx)
{
	struct counts *counts = counts_here();
	__u32 bank = bank_in_force();
	__u32 from = ctx->ifindex - first_port;
	__u32 at = 2 * from + bank;
	struct port *port = bpf_map_lookup_elem(&edt_ports, &at);
	struct params *params;
	__u32 slot;
	__u8 mac[6];

	if (!counts)
		return TC_ACT_SHOT;
	if (ctx->gso_size) {
		counts->dropped_gso++;
		return TC_ACT_SHOT;
	}
	if (bpf_skb_load_bytes(ctx, 0, mac, sizeof(mac))) {
		counts->dropped_size++;
		return TC_ACT_SHOT;
	}
	counts->steered++;
	if (!port || !port->edges) {
		counts->no_edge++;
		return TC_ACT_SHOT;
	}
	// The sender's TCP may have paced with this time stamp; the node's own queue has honoured it already.
	ctx->tstamp = 0;
	ctx->priority = 0;
	if (port->edges > 1 && (mac[0] & 1)) {
		struct walk walk = { .ctx = ctx, .bank = bank, .next = port->first };

		bpf_loop(port->edges, copy_to_edge, &walk, 0);
		counts->dropped_copy += walk.failed;
		return TC_ACT_SHOT;
	}
	if (port->edges == 1) {
		slot = port->first - 1;
	} else {
		struct key key = { .from = from };
		__u32 *found;

		key.to = (__u32)mac[3] << 16 | (__u32)mac[4] << 8 | mac[5];
		if (mac[0] != 0x02 || mac[1] != 0xc5 || mac[2] != 0) {
			counts->no_edge++;
			return TC_ACT_SHOT;
		}
		found = bpf_map_lookup_elem(&edt_index, &key);
		params = found ? params_of(*found, bank) : 0;
		if (!params || !(params->flags & EDGE_EXISTS)) {
			counts->no_edge++;
			return TC_ACT_SHOT;
		}
		slot = *found;
	}
	ctx->mark = mark_of(slot, bank);
	// While a frame belongs to its sender's socket, it is charged to the socket for as long as the fq holds it, and TCP
	// (small queues) would stop sending. A copy has no socket.
	if (ctx->sk) {
		// A positive result means that the edge or the fq dropped the frame, and has counted it.
		if (bpf_clone_redirect(ctx, trunk_of(slot), 0) < 0)
			counts->dropped_copy++;
		return TC_ACT_SHOT;
	}
	return bpf_redirect(trunk_of(slot), 0);
}

// xoshiro256** as in crates/link: the same seed loses the same frames.
static __always_inline __u64 draw(__u64 *s)
{
	__u64 x = s[1] * 5;
	__u64 result = (x << 7 | x >> 57) * 9;
	__u64 t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = s[3] << 45 | s[3] >> 19;
	return result;
}

// delay(t), rounded down, never negative. |slope| <= 1e9, so that the arithmetic below cannot overflow.
static __always_inline __u64 delay_at(const struct params *p, __u64 t)
{
	__u64 elapsed, slope, whole, part, glide;
	int back = t < p->t0_ns;
	int falls = p->slope_ns_per_s < 0;

	if (!p->slope_ns_per_s)
		return p->delay_ns;
	elapsed = back ? p->t0_ns - t : t - p->t0_ns;
	slope = falls ? -p->slope_ns_per_s : p->slope_ns_per_s;
	// Split into whole seconds and the rest, because elapsed * slope may exceed 64 bits.
	whole = elapsed / NS_PER_S * slope;
	part = elapsed % NS_PER_S * slope;
	glide = whole + part / NS_PER_S;
	if (back != falls) {
		// A falling delay is rounded down by rounding the decrease up.
		glide += part % NS_PER_S != 0;
		return p->delay_ns > glide ? p->delay_ns - glide : 0;
	}
	return p->delay_ns + glide;
}

#define ETHERTYPE_AT 12
#define CE 3

// Sets the ECN field to "congestion experienced" (RFC 3168) if the sender supports ECN, and updates the IPv4 header's
// checksum (RFC 1624). As in crates/link it skips up to two VLAN tags and requires a whole header. The kernel's helper
// for this ignores copies of a frame, and frames whose network header was not located.
static __always_inline int mark_ce(struct __sk_buff *ctx)
{
	__u32 at = ETHERTYPE_AT, i;
	__u16 type, old, new;
	__u8 first[2];

	for (i = 0; i < 3; i++) {
		if (bpf_skb_load_bytes(ctx, at, &type, sizeof(type)))
			return 0;
		at += sizeof(type);
		if (type != bpf_htons(0x8100) && type != bpf_htons(0x88a8))
			break;
		at += sizeof(type);
	}
	if (bpf_skb_load_bytes(ctx, at, first, sizeof(first)))
		return 0;
	if (type == bpf_htons(0x0800)) {
		if (first[0] >> 4 != 4 || !(first[1] & CE) || ctx->len < at + 20)
			return 0;
		old = bpf_htons(first[0] << 8 | first[1]);
		new = bpf_htons(first[0] << 8 | first[1] | CE);
		first[1] |= CE;
		return old == new || (!bpf_skb_store_bytes(ctx, at + 1, first + 1, 1, 0) &&
				      !bpf_l3_csum_replace(ctx, at + 10, old, new, sizeof(new)));
	}
	if (type == bpf_htons(0x86dd)) {
		if (first[0] >> 4 != 6 || !(first[1] & CE << 4) || ctx->len < at + 40)
			return 0;
		first[1] |= CE << 4;
		return !bpf_skb_store_bytes(ctx, at + 1, first + 1, 1, BPF_F_RECOMPUTE_CSUM);
	}
	return 0;
}

SEC("tc")
int cst_depart(struct __sk_buff *ctx)
{
	struct counts *counts = counts_here();
	__u32 at = ctx->mark - 1, slot = at / 2;
	struct params *p = bpf_map_lookup_elem(&edt_params, &at);
	struct state *s = bpf_map_lookup_elem(&edt_state, &slot);
	__u32 len = ctx->len + (ctx->vlan_present ? TAG : 0);
	__u64 now = bpf_ktime_get_ns();
	__u64 served, due = 0;
	int drop = 1, mark = 0;

	if (!counts)
		return TC_ACT_SHOT;
	if (!p || !s || !(p->flags & EDGE_EXISTS)) {
		counts->gone++;
		return TC_ACT_SHOT;
	}
	__u64 rate = p->rate_bps;
	bpf_spin_lock(&s->lock);
	// A new life of the edge: an empty queue, and its own generator. The parameters are read without a lock; the bank is
	// not written while programs may read it.
	if (s->life != p->life) {
		s->life = p->life;
		s->free_ns = 0;
		s->rem = 0;
		s->rng[0] = p->rng[0];
		s->rng[1] = p->rng[1];
		s->rng[2] = p->rng[2];
		s->rng[3] = p->rng[3];
	}
	s->offered++;
	s->offered_bytes += len;
	if (now < p->up_from_ns || (p->flags & EDGE_DOWN)) {
		s->dropped_outage++;
		goto out;
	}
	served = now;
	if (rate) {
		__u64 start = now, rem = 0, waited, work;

		if (s->free_ns + (s->rem > 0) > now) {
			start = s->free_ns;
			rem = s->rem;
			waited = start - now;
			// In the queue and in service there are waited * rate bits (and a fraction). The queue accepts the frame as long as
			// that is not more than its limit. With frames of one size this is exact; otherwise the frame in service may count
			// for more or less than its length.
			if (waited > ~0ULL / 2 / rate ||
			    waited * rate + rem > p->queue_bytes * NS_BITS_PER_BYTE) {
				s->dropped_queue++;
				goto out;
			}
			mark = waited + (rem > 0) > p->ce_above_ns;
		}
		// The fraction of a nanosecond is carried in `rem`, so that no rate is lost over many frames.
		work = (__u64)(len + p->overhead_bytes) * NS_BITS_PER_BYTE + rem;
		s->free_ns = start + work / rate;
		s->rem = work % rate;
		served = s->free_ns + (s->rem > 0);
	}
	if (p->loss | (p->flags & EDGE_LOSES_ALL)) {
		if (draw(s->rng) < p->loss || (p->flags & EDGE_LOSES_ALL)) {
			s->dropped_loss++;
			goto out;
		}
	}
	due = served + delay_at(p, served);
	// A shrinking delay must not let the frame overtake the one before it.
	if (due < s->last_due_ns)
		due = s->last_due_ns;
	s->last_due_ns = due;
	s->accepted++;
	s->accepted_bytes += len;
	drop = 0;
out:
	bpf_spin_unlock(&s->lock);
	if (drop)
		return TC_ACT_SHOT;
	if (mark && mark_ce(ctx))
		__sync_fetch_and_add(&s->marked, 1);
	bpf_set_hash(ctx, p->flow);
	ctx->mark = p->to + 1;
	ctx->tstamp = due;
	return TC_ACT_OK;
}

static __always_inline __u32 log2_of(__u64 v)
{
	__u32 r = 0;

	if (v >> 32) { v >>= 32; r += 32; }
	if (v >> 16) { v >>= 16; r += 16; }
	if (v >> 8) { v >>= 8; r += 8; }
	if (v >> 4) { v >>= 4; r += 4; }
	if (v >> 2) { v >>= 2; r += 2; }
	return r + (v >> 1);
}

static __always_inline void record(struct counts *counts, __u64 due)
{
	__u64 now = bpf_ktime_get_ns(), late, bucket;
	__u32 power;

	if (now < due) {
		counts->early++;
		return;
	}
	late = now - due;
	power = log2_of(late | 4);
	bucket = 4 * (power - 2) + ((late | 4) >> (power - 2) & 3);
	// Keep the compiler from comparing half of the register, which the verifier would not accept as a bound.
	asm volatile("" : "+r"(bucket));
	if (bucket < LATENESS_BUCKETS)
		counts->lateness[bucket]++;
}

SEC("tc")
int cst_arrive(struct __sk_buff *ctx)
{
	struct counts *counts = counts_here();
	__u32 to = ctx->mark - 1, zero = 0;
	struct shared *shared = bpf_map_lookup_elem(&edt_shared, &zero);
	__u64 due = ctx->tstamp;
	__u8 mac[6];

	if (!counts || !shared)
		return TC_ACT_SHOT;
	if (!ctx->mark || bpf_skb_load_bytes(ctx, 0, mac, sizeof(mac))) {
		counts->foreign++;
		return TC_ACT_SHOT;
	}
	record(counts, due);
	counts->released++;
	counts->released_bytes += ctx->len + (ctx->vlan_present ? TAG : 0);
	// The frame was received on the trunk, whose address is not the node's, so its packet type must be corrected.
	if (mac[0] == 0x02 && mac[1] == 0xc5 && !mac[2] &&
	    ((__u32)mac[3] << 16 | (__u32)mac[4] << 8 | mac[5]) == to)
		bpf_skb_change_type(ctx, PACKET_HOST);
	// The node gets the frame with its arrival time, and without the driver's hash and mark.
	bpf_set_hash_invalid(ctx);
	ctx->mark = 0;
	ctx->tstamp = bpf_ktime_get_tai_ns() - shared->tai_minus_real_ns;
	return bpf_redirect_peer(first_port + to, 0);
}

_Static_assert(sizeof(struct params) == 128 && sizeof(struct state) == 128, "layout.rs");
_Static_assert(sizeof(struct counts) == 8 * (10 + LATENESS_BUCKETS), "layout.rs");

char LICENSE[] SEC("license") = "Dual MIT/GPL";
