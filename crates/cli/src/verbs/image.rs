//! `constel image`: manages the images of nodes.

use constel_control::images::{Image, Images, Imported, Pruned, Removed, Shown, Usage};

use crate::args::{Image as Args, ImageBuild, ImageImport, ImageVerb};
use crate::exit::{Exit, Outcome};
use crate::{output, progress};

/// Imports, builds, lists, shows, removes or prunes images.
pub(crate) fn run(args: &Args) -> Outcome {
    let images = Images::open(args.store.as_deref())?;
    match &args.verb {
        ImageVerb::Import(import) => print(args, &bring_in(&images, import)?, imported_text),
        ImageVerb::Build(of) => print(args, &build(&images, of)?, imported_text),
        ImageVerb::List => print(args, &images.list()?, |l| list_text(&l.images, &l.usage)),
        ImageVerb::Show(name) => print(args, &images.show(&name.image)?, shown_text),
        ImageVerb::Remove(name) => print(args, &images.remove(&name.image)?, removed_text),
        ImageVerb::Prune => print(args, &images.prune()?, pruned_text),
    }
}

fn print<T: serde::Serialize>(args: &Args, answer: &T, text: impl Fn(&T) -> String) -> Outcome {
    match args.json {
        true => output::json(answer)?,
        false => output::text(&text(answer))?,
    }
    Ok(Exit::Done)
}

fn bring_in(images: &Images, args: &ImageImport) -> Result<Imported, constel_control::Error> {
    images.import(&args.source, args.name.as_deref(), &*progress::for_stderr())
}

fn build(images: &Images, args: &ImageBuild) -> Result<Imported, constel_control::Error> {
    let default = args.folder.join("Dockerfile");
    let file = args.file.as_deref().unwrap_or(&default);
    let (name, progress) = (args.name.as_deref(), progress::for_stderr());
    images.build(file, &args.folder, name, &*progress)
}

fn imported_text(imported: &Imported) -> String {
    let image = &imported.image;
    let mut text = format!(
        "{} is {}: {} layers, {}, {} of them there before\n",
        imported.name,
        image.id.short(),
        image.layers.len(),
        output::size(image.bytes),
        imported.reused_layers
    );
    if let Some(before) = imported.replaced {
        text.push_str(&format!(
            "it was {} before; `constel image prune` removes what has no name\n",
            before.short()
        ));
    }
    text
}

fn list_text(images: &[Image], usage: &Usage) -> String {
    let mut rows = Vec::new();
    for image in images {
        let id = image.id.short();
        let names = if image.names.is_empty() {
            vec!["-".to_owned()]
        } else {
            image.names.clone()
        };
        for name in names {
            rows.push(vec![
                name,
                id.clone(),
                image.layers.len().to_string(),
                output::size(image.bytes),
                image.source.clone(),
            ]);
        }
    }
    let unused = match usage.unused_bytes {
        0 => String::new(),
        bytes => format!("; {} of no image", output::size(bytes)),
    };
    let under_way = match usage.work {
        0 => String::new(),
        imports => format!("; {imports} running or killed imports"),
    };
    let table = output::table(&["NAME", "IMAGE", "LAYERS", "SIZE", "SOURCE"], &rows);
    let (layers, all) = (usage.layers, output::size(usage.bytes));
    format!("{table}{layers} layers, {all}{unused}{under_way}\n")
}

fn shown_text(shown: &Shown) -> String {
    let (image, config) = (&shown.image, &shown.config);
    let env: Vec<String> = config
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let ports: Vec<String> = config
        .ports
        .iter()
        .map(|port| {
            format!(
                "{}/{}",
                port.number,
                format!("{:?}", port.protocol).to_lowercase()
            )
        })
        .collect();
    let health = config
        .healthcheck
        .as_ref()
        .map(|health| health.test.clone());
    let labels: Vec<String> = config
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let rows = [
        ("image", image.id.to_string()),
        ("names", listed(&image.names)),
        ("source", image.source.clone()),
        ("manifest", output::or_dash(image.manifest)),
        ("size", output::size(image.bytes)),
        (
            "user",
            if config.user.is_empty() {
                "root".to_owned()
            } else {
                plain(&config.user)
            },
        ),
        ("workdir", plain(&config.workdir)),
        ("entrypoint", listed(&config.entrypoint)),
        ("cmd", listed(&config.cmd)),
        ("env", listed(&env)),
        ("ports", listed(&ports)),
        ("volumes", listed(&config.volumes)),
        ("stop signal", config.stop_signal.to_string()),
        ("health check", listed(&health.unwrap_or_default())),
        ("labels", listed(&labels)),
    ];
    let mut text: String = rows
        .iter()
        .map(|(key, value)| format!("{key:<13} {value}\n"))
        .collect();
    text.push('\n');
    let layers = image.layers.iter().map(|layer| {
        let left_out = listed(&layer.left_out);
        vec![
            layer.diff_id.short(),
            layer.entries.to_string(),
            output::size(layer.bytes),
            left_out,
        ]
    });
    let layers: Vec<Vec<String>> = layers.collect();
    text + &output::table(&["LAYER", "ENTRIES", "SIZE", "LEFT OUT"], &layers)
}

fn removed_text(removed: &Removed) -> String {
    let mut text: String = removed
        .names
        .iter()
        .map(|name| format!("removed the name {name}\n"))
        .collect();
    if removed.image {
        let (id, layers, bytes) = (
            removed.id.short(),
            removed.layers,
            output::size(removed.bytes),
        );
        text.push_str(&format!(
            "removed the image {id} and {layers} layers, {bytes}\n"
        ));
    }
    text
}

fn pruned_text(pruned: &Pruned) -> String {
    let (images, layers, bytes) = (
        pruned.images.len(),
        pruned.layers,
        output::size(pruned.bytes),
    );
    format!(
        "removed {images} images, {layers} layers ({bytes}), {} killed imports\n",
        pruned.imports
    )
}

fn listed(texts: &[String]) -> String {
    match texts {
        [] => "-".to_owned(),
        _ => plain(&texts.join(" ")),
    }
}

/// Escapes an image's text, so that it cannot control the terminal.
fn plain(text: &str) -> String {
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escaped).collect()
}
