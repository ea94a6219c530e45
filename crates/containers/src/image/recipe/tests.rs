//! Images from packages that a test has written, and from those of this host where they are installed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;
use crate::image::documents::Platform;
use crate::image::limits::Limits;
use crate::image::progress::Silent;

/// A system in a folder.
struct System(tempfile::TempDir);

impl System {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("var/lib/dpkg/info")).unwrap();
        fs::create_dir_all(dir.path().join("usr")).unwrap();
        for name in ["bin", "sbin", "lib"] {
            fs::create_dir_all(dir.path().join("usr").join(name)).unwrap();
            symlink(format!("usr/{name}"), dir.path().join(name)).unwrap();
        }
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn install(&self, package: &str, version: &str, files: &[(&str, &[u8])]) {
        let status = self.path("var/lib/dpkg/status");
        let mut text = fs::read_to_string(&status).unwrap_or_default();
        text.push_str(&format!(
            "Package: {package}\nStatus: install ok installed\nVersion: {version}\n\n"
        ));
        fs::write(status, text).unwrap();
        let list: String = files.iter().map(|(path, _)| format!("{path}\n")).collect();
        let own = self.path(&format!("var/lib/dpkg/info/{package}.list"));
        fs::write(own, "/.\n/usr\n".to_owned() + &list).unwrap();
        for (path, bytes) in files {
            let path = self.path(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        }
    }

    fn find(&self, recipe: Recipe) -> Result<Found, Fault> {
        let spool = tempfile::tempdir().unwrap();
        let (limits, platform) = (Limits::default(), Platform::host());
        let context = Context {
            spool: spool.path(),
            limits: &limits,
            platform: &platform,
            progress: &Silent,
        };
        find(recipe, self.0.path(), &context)
    }
}

fn layer(found: &Found) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut layer = found.from.open(&found.layers[0]).unwrap();
    std::io::Read::read_to_end(&mut layer, &mut bytes).unwrap();
    bytes
}

/// Path, kind and target of all entries.
fn entries(layer: &[u8]) -> Vec<(String, EntryType, String)> {
    let mut archive = ::tar::Archive::new(layer);
    let entries = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let target = entry.link_name().unwrap();
        let header = entry.header();
        assert_eq!((header.uid().unwrap(), header.mtime().unwrap()), (0, 0));
        (
            entry.path().unwrap().display().to_string(),
            header.entry_type(),
            target.map_or_else(String::new, |t| t.display().to_string()),
        )
    });
    entries.collect()
}

use ::tar::EntryType;

/// A program or library of 64 bits that names others: the least that is an ELF file.
fn elf(interpreter: Option<&str>, libraries: &[&str], runpath: Option<&str>) -> Vec<u8> {
    let mut strings = vec![0_u8];
    let mut put = |text: &str| {
        let at = strings.len() as u64;
        strings.extend(text.as_bytes());
        strings.push(0);
        at
    };
    let loader = interpreter.map(&mut put);
    let mut dynamic: Vec<(u64, u64)> = libraries.iter().map(|name| (1, put(name))).collect();
    dynamic.extend(runpath.map(|path| (29, put(path))));
    let (table, base) = (64_u64, 0x1000_u64);
    let strings_at = table + 3 * 56;
    let dynamic_at = strings_at + strings.len() as u64;
    dynamic.extend([(5, base + strings_at), (0, 0)]);
    let size = dynamic_at + dynamic.len() as u64 * 16;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(64, 0);
    file[32..40].copy_from_slice(&table.to_le_bytes());
    file[54..56].copy_from_slice(&56_u16.to_le_bytes());
    let count = 2 + u16::from(loader.is_some());
    file[56..58].copy_from_slice(&count.to_le_bytes());
    let mut part = |kind: u32, offset: u64, length: u64| {
        file.extend(kind.to_le_bytes());
        file.extend([0; 4]);
        for number in [offset, base + offset, 0, length, length, 0] {
            file.extend(number.to_le_bytes());
        }
    };
    part(1, 0, size);
    part(2, dynamic_at, dynamic.len() as u64 * 16);
    if let Some(at) = loader {
        part(3, strings_at + at, 1);
    }
    file.resize(strings_at as usize, 0);
    file.extend(strings);
    for (tag, value) in dynamic {
        file.extend(tag.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file
}

fn with_bird() -> System {
    let system = System::new();
    system.install(
        "busybox-static",
        "1:1.35",
        &[("/bin/busybox", b"\x7fELF static")],
    );
    let bird = elf(
        Some("/lib/ld.so.9"),
        &["liba.so.1", "libb.so"],
        Some("$ORIGIN/own"),
    );
    system.install(
        "bird2",
        "2.0",
        &[
            ("/usr/sbin/bird", &bird),
            ("/usr/share/doc/bird2/copyright", b"x"),
            ("/etc/bird/bird.conf", b"x"),
        ],
    );
    let (a, b) = (
        elf(None, &["libb.so"], None),
        elf(None, &["liba.so.1"], None),
    );
    let loader = elf(None, &[], None);
    let multiarch = format!("/lib/{}/liba.so.1.2", packages::triplet());
    system.install(
        "libs",
        "3",
        &[
            (&multiarch, &a),
            ("/usr/sbin/own/libb.so", &b),
            ("/lib/ld.so.9", &loader),
            ("/usr/lib/libb.so", &b),
        ],
    );
    let folder = system.path(&format!("usr/lib/{}", packages::triplet()));
    symlink("liba.so.1.2", folder.join("liba.so.1")).unwrap();
    system
}

/// As Debian's alternatives have BLAS: the loader finds the library by its link, and what stands beside it by that folder.
#[test]
fn a_library_looks_beside_the_name_by_which_it_was_found() {
    let system = System::new();
    system.install(
        "busybox-static",
        "1:1.35",
        &[("/bin/busybox", b"\x7fELF static")],
    );
    let folder = format!("/usr/lib/{}", packages::triplet());
    let bird = elf(None, &["libalt.so.3"], None);
    let alt = elf(None, &["libimpl.so.0"], Some("$ORIGIN"));
    let own = format!("{folder}/alt/libalt.so.3");
    let implementation = format!("{folder}/alt/libimpl-r0.so");
    system.install("bird2", "2.0", &[("/usr/sbin/bird", &bird)]);
    system.install(
        "libs",
        "3",
        &[(&own, &alt), (&implementation, &elf(None, &[], None))],
    );
    let host = system.path(&folder[1..]);
    symlink("libimpl-r0.so", host.join("alt/libimpl.so.0")).unwrap();
    symlink("alt/libimpl.so.0", host.join("libimpl.so.0")).unwrap();
    symlink("alt/libalt.so.3", host.join("libalt.so.3")).unwrap();
    let found = system.find(Recipe::Bird).unwrap();
    let all = entries(&layer(&found));
    let named = format!("{}/libimpl.so.0", &folder[1..]);
    let link = all.iter().find(|entry| entry.0 == named);
    assert_eq!(link.unwrap().2, implementation);
}

#[test]
fn programs_come_with_all_that_they_need_and_nothing_else() {
    let found = with_bird().find(Recipe::Bird).unwrap();
    let all = entries(&layer(&found));
    let has = |path: &str| all.iter().find(|entry| entry.0 == path);
    let triplet = packages::triplet();
    assert!(has("usr/sbin/bird").is_some() && has("usr/bin/busybox").is_some());
    assert!(
        has("usr/sbin/own/libb.so").is_some(),
        "found by its RUNPATH"
    );
    assert!(
        has("usr/lib/libb.so").is_some(),
        "and by liba, which has none"
    );
    assert!(has("usr/lib/ld.so.9").is_some(), "the loader");
    let link = has(&format!("usr/lib/{triplet}/liba.so.1")).unwrap();
    assert_eq!(
        (link.1, link.2.as_str()),
        (
            EntryType::Symlink,
            format!("/usr/lib/{triplet}/liba.so.1.2").as_str()
        )
    );
    assert_eq!(has("bin").unwrap().2, "usr/bin");
    assert_eq!(has("usr/bin/sh").unwrap().2, "busybox");
    assert!(
        !all.iter()
            .any(|entry| entry.0.contains("copyright") || entry.0.contains("bird.conf"))
    );
    let mut sorted = all.clone();
    sorted.sort_by(|a, b| a.0.trim_end_matches('/').cmp(b.0.trim_end_matches('/')));
    assert_eq!(all[1..], sorted[1..], "in order, after the root");
    let config = String::from_utf8(found.config).unwrap();
    assert!(
        config.contains("bird2=2.0 busybox-static=1:1.35 libs=3"),
        "{config}"
    );
    assert!(!config.contains("of-no-package"), "{config}");
}

#[test]
fn the_same_packages_give_the_same_bytes() {
    let (one, other) = (with_bird(), with_bird());
    let old = fs::File::options()
        .write(true)
        .open(one.path("usr/sbin/bird"))
        .unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    let (one, other) = (
        one.find(Recipe::Bird).unwrap(),
        other.find(Recipe::Bird).unwrap(),
    );
    assert_eq!(one.config, other.config);
    assert!(layer(&one) == layer(&other));
}

#[test]
fn what_is_missing_is_named() {
    let system = System::new();
    assert!(matches!(system.find(Recipe::Base), Err(Fault::NoPackages)));
    system.install("libc6", "2", &[]);
    let said = |recipe| system.find(recipe).err().unwrap().to_string();
    assert!(said(Recipe::NginxVideo).ends_with("apt-get install busybox-static nginx-light"));
    // Removed, but its configuration is still there.
    let status = system.path("var/lib/dpkg/status");
    let text = "Package: busybox-static\nStatus: deinstall ok config-files\nVersion: 1\n\n";
    fs::write(status, text).unwrap();
    assert!(said(Recipe::Base).ends_with("apt-get install busybox-static"));
    system.install("busybox-static", "1", &[("/bin/busybox", b"x")]);
    system.find(Recipe::Base).unwrap();
    let needy = elf(None, &["libgone.so.7"], None);
    system.install("bird2", "2", &[("/usr/sbin/bird", &needy)]);
    let words = said(Recipe::Bird);
    assert!(
        words.contains("/usr/sbin/bird needs the library libgone.so.7"),
        "{words}"
    );
    system.install("frr", "2", &[("/usr/share/other", b"x")]);
    let module = ("/lib/any/security/pam_permit.so", &b"x"[..]);
    system.install("libpam-modules", "1", &[module]);
    assert!(said(Recipe::Frr).ends_with("apt-get install --reinstall frr"));
}

#[test]
fn recipes_are_words_and_names_of_images() {
    for recipe in Recipe::ALL {
        assert_eq!(recipe.as_str().parse::<Recipe>().unwrap(), recipe);
        assert_eq!(Recipe::of_image(&recipe.image_name()), Some(recipe));
    }
    assert_eq!(Recipe::of_image("constel/bird:latest"), Some(Recipe::Bird));
    assert_eq!(Recipe::of_image("bird"), None);
    let error = "brid".parse::<Recipe>().unwrap_err().to_string();
    assert!(error.contains("base, frr, bird"), "{error}");
}
