//! Compiles this crate's BPF programs.

include!("../../tools/compile_bpf.rs");

fn main() {
    compile(&["crossing"]);
}
