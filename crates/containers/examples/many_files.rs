//! Measures the import of an image with many files: `cargo run --release -p constel-containers --example many_files -- 100000`.
//! Needs root. The image is made in a temporary folder (`TMPDIR`) that is removed at the end; the program prints one JSON
//! object. `tar_s` is the time that `tar` needs for the same archive at the same place, with the files written to the disk as
//! the store does.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use constel_containers::image::{ImportOptions, Silent, Source, Store};

/// Files per folder, and bytes per file.
const OF_A_FOLDER: usize = 100;
const CONTENT: [u8; 1024] = [b'x'; 1024];

fn main() -> Result<(), Box<dyn Error>> {
    let files: usize = std::env::args()
        .nth(1)
        .ok_or("usage: many_files N")?
        .parse()?;
    let temp = tempfile::tempdir()?;
    let archive = temp.path().join("rootfs.tar");
    write(&archive, files)?;
    let unpacked = temp.path().join("unpacked");
    std::fs::create_dir(&unpacked)?;
    let began = Instant::now();
    let mut tar = Command::new("tar");
    run(tar.arg("-xf").arg(&archive).arg("-C").arg(&unpacked))?;
    run(Command::new("sync").arg("-f").arg(&unpacked))?;
    let tar_s = began.elapsed().as_secs_f64();
    let store = Store::open(&temp.path().join("store"))?;
    let options = ImportOptions {
        name: Some("many".to_owned()),
        ..ImportOptions::default()
    };
    let began = Instant::now();
    let source: Source = format!("rootfs:{}", archive.display()).parse()?;
    let imported = store.import(&source, &options, &Silent)?;
    let import_s = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let again = store.import(&source, &options, &Silent)?;
    let again_s = began.elapsed().as_secs_f64();
    let began = Instant::now();
    drop(store.hold("many")?);
    let hold_s = began.elapsed().as_secs_f64();
    let began = Instant::now();
    store.remove("many")?;
    let remove_s = began.elapsed().as_secs_f64();
    println!(
        r#"{{"files": {files}, "entries": {}, "bytes": {}, "tar_s": {tar_s:.3}, "import_s": {import_s:.3}, "again_s": {again_s:.3}, "layers_reused": {}, "hold_s": {hold_s:.6}, "remove_s": {remove_s:.3}, "peak_rss_kib": {}}}"#,
        imported.image.layers[0].entries,
        imported.image.bytes,
        again.reused_layers,
        peak_rss_kib()?
    );
    Ok(())
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    match command.status()?.success() {
        true => Ok(()),
        false => Err(format!("{command:?} failed").into()),
    }
}

fn write(archive: &Path, files: usize) -> Result<(), Box<dyn Error>> {
    let mut tar = tar::Builder::new(std::fs::File::create(archive)?);
    for n in 0..files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(CONTENT.len() as u64);
        let path = format!("d{}/f{n}", n / OF_A_FOLDER);
        tar.append_data(&mut header, path, &CONTENT[..])?;
    }
    Ok(tar.finish()?)
}

fn peak_rss_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let text = line.ok_or("no VmHWM")?.trim().trim_end_matches(" kB");
    Ok(text.parse()?)
}
