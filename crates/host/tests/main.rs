//! The crate's integration tests: one program, so that they are linked once.

mod bench_bringup;
mod enclosure;
mod globals;
mod labs;
mod netlink;
mod netns;
mod process;
mod room;
mod small_disk;
mod template;
mod watch;
