//! Compiles this crate's BPF programs.

include!("../../tools/compile_bpf.rs");

fn main() {
    compile(&["relay", "edt", "forward", "hybla", "westwood", "vegas"]);
}
