//! Link drivers: what makes the edges of `constel-link` real in packets.
