//! The program finds what it is for: panics, hangs and hunger for memory, and says how to see them again.

use std::process::{Command, Output};

fn fuzz(args: &[&str], found: &std::path::Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_constel-fuzz"));
    command.args(args).arg("--found").arg(found);
    command.output().expect("the program of this crate")
}

#[test]
fn a_panic_a_hang_and_hunger_for_memory_are_found_and_found_again() {
    let found = tempfile::tempdir().expect("a temporary folder");
    for (target, how) in [
        ("test-panic", "a panic"),
        ("test-hang", "no end after"),
        ("test-memory", "signal"),
    ] {
        let output = fuzz(&[target, "--seconds", "60"], found.path());
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{target}: {told}");
        assert!(told.contains("FOUND") && told.contains(how), "{told}");
        let file = told
            .split("--input ")
            .nth(1)
            .map(str::trim)
            .expect("how to see it again");
        assert!(std::path::Path::new(file).is_file(), "{told}");
        if target == "test-panic" {
            let again = fuzz(&[target, "--input", file], found.path());
            assert_ne!(again.status.code(), Some(0));
        }
    }
}

#[test]
fn a_name_that_is_none_is_refused() {
    let found = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(fuzz(&["nothing"], found.path()).status.code(), Some(2));
}
