//! How sources are written, and chosen among.

use std::path::Path;

use super::Source;
use super::found::{choose_by_name, stem};

#[test]
fn a_source_is_written_as_it_is_read() {
    for text in [
        "some/path.tar",
        "oci:folder",
        "oci:folder:name:tag",
        "docker-archive:a.tar:x/y:1",
        "rootfs:folder",
        "docker-daemon:busybox:1.36",
        "docker://quay.io/frrouting/frr:10.1.0",
    ] {
        assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
    }
    assert!(matches!(
        "oci-archive:x".parse().unwrap(),
        Source::Archive { image: None, .. }
    ));
    assert!(matches!("C:x".parse().unwrap(), Source::Path(_)));
    assert!(
        "docker://".parse::<Source>().is_err() && "docker-daemon:A B".parse::<Source>().is_err()
    );
}

#[test]
fn among_several_images_one_has_to_be_named() {
    let images = [vec!["a:1", "a:latest"], vec!["b:1"], vec![]];
    let names = |image: &Vec<&str>| image.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let error = choose_by_name(&images, None, names).unwrap_err();
    assert_eq!(
        error.to_string(),
        "it holds several images: a:1, a:latest, b:1"
    );
    let chosen = choose_by_name(&images, Some("docker.io/library/a"), names).unwrap();
    assert_eq!(chosen, [&images[0]]);
    let error = choose_by_name(&images, Some("c"), names).unwrap_err();
    assert_eq!(
        error.to_string(),
        "it holds no image 'c', but a:1, a:latest, b:1"
    );
    // If a name has several machines, the machine chooses.
    let same = [vec!["a:1"], vec!["a:1"]];
    assert_eq!(choose_by_name(&same, None, names).unwrap().len(), 2);
    assert_eq!(choose_by_name(&images[..1], None, names).unwrap().len(), 1);
}

#[test]
fn an_image_without_a_name_is_called_like_its_file() {
    assert_eq!(stem(Path::new("/x/Bird-2.tar.gz")), "bird-2");
    assert_eq!(stem(Path::new("/x/rootfs")), "rootfs");
}
