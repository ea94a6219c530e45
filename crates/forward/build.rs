//! Compiles this crate's BPF program.

include!("../../tools/compile_bpf.rs");

fn main() {
    compile(&["forward"]);
}
