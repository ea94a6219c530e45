// Included by the build scripts of crates with BPF programs: compiles `bpf/*.bpf.c` with clang. The objects end up in
// the library itself, so the finished program needs no compiler.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// `bpf/<name>.bpf.c` to `$OUT_DIR/<name>.bpf.o`, for each of these names.
fn compile(names: &[&str]) {
    let out_dir = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target");
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let bpf_arch = match arch.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "riscv64" => "riscv",
        other => other,
    };
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-changed=bpf");
    for name in names {
        let source = PathBuf::from("bpf").join(format!("{name}.bpf.c"));
        let status = Command::new(&clang)
            .args([
                "-g", "-O2", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3",
            ])
            .arg(format!("-D__TARGET_ARCH_{bpf_arch}"))
            .arg(format!("-I{headers}"))
            // Debian keeps <asm/types.h> in the multiarch directory, which clang does not search
            // for the target "bpf".
            .arg(format!("-I/usr/include/{arch}-linux-gnu"))
            .arg("-c")
            .arg(&source)
            .arg("-o")
            .arg(out_dir.join(format!("{name}.bpf.o")))
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => panic!("{clang} could not compile {}: {status}", source.display()),
            Err(e) => panic!("cannot run {clang} (Debian: apt-get install clang): {e}"),
        }
    }
}
