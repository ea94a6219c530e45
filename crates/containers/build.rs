//! Compiles the first process of containers that an engine makes: static, without a C library. It ends up in the library
//! itself, so the finished program needs no compiler.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "first_process/first.c";

fn main() {
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-changed={SOURCE}");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("first");
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let status = Command::new(&clang)
        .arg(format!("--target={arch}-linux-gnu"))
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-ffreestanding"])
        .args(["-fno-builtin", "-fno-stack-protector", "-fno-pie"])
        .args(["-fno-asynchronous-unwind-tables", "-nostdlib", "-static"])
        // The same bytes from the same source: they are part of what images are called in the engine.
        .args(["-Wl,--build-id=none", "-Wl,-s", "-o"])
        .arg(&out)
        .arg(SOURCE)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {SOURCE}: {status}"),
        Err(e) => panic!("cannot run {clang} (Debian: apt-get install clang): {e}"),
    }
}
