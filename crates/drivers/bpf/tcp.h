/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Kernel types that a congestion control uses, with only the members that are read or written. Their offsets are
 * filled in when the program is loaded, from the running kernel's own type information (BTF).
 */
#ifndef CONSTEL_TCP_H
#define CONSTEL_TCP_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define KERNEL __attribute__((preserve_access_index))

#define PACING_NONE 0
#define PACING_NEEDED 1

/* enum tcp_ca_event */
#define EVENT_TX_START 0
#define EVENT_CWND_RESTART 1

struct sock {
	__u32 sk_pacing_status;
} KERNEL;

struct inet_connection_sock {
	__u64 icsk_ca_priv[13];
} KERNEL;

struct tcp_sock {
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 srtt_us; /* eight times the smoothed round trip */
	__u32 mss_cache;
	__u32 max_packets_out;
	__u32 delivered;
	__u64 tcp_mstamp; /* microseconds */
	__u8 is_cwnd_limited : 1;
} KERNEL;

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
	__u32 in_flight;
} KERNEL;

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, int event);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	void (*init)(struct sock *sk);
	char name[16];
};

/* The kernel's own building blocks. */
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static __always_inline struct tcp_sock *tcp(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* Room for a congestion control's own state, 104 bytes. */
static __always_inline void *private_of(struct sock *sk)
{
	return (void *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline bool in_slow_start(struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* A window that the application does not fill carries no information about the network (RFC 7661). */
static __always_inline bool window_is_used(struct tcp_sock *tp)
{
	/* The bit's position differs between kernels: a plain read would use the position of this header. */
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline __u32 at_most(__u32 a, __u32 b)
{
	return a < b ? a : b;
}

static __always_inline __u32 at_least(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

#endif
