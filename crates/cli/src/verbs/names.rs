//! `constel names`: the names that can stand at the end of a command line, for the completion scripts of shells.

use std::fs;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use constel_control::Observer;

use crate::args::{Cli, Names};
use crate::exit::{Exit, Outcome};
use crate::output;

/// Prints the names that complete the last word, a line each. Prints nothing if no name fits, or if names cannot be read.
pub(crate) fn run(args: &Names) -> Outcome {
    let mut command = Cli::command();
    command.build();
    for name in candidates(&command, &args.words, &Host) {
        output::text(&format!("{name}\n"))?;
    }
    Ok(Exit::Done)
}

/// The names that exist.
trait Known {
    fn labs(&self) -> Vec<String>;
    fn nodes(&self, lab: &str) -> Vec<String>;
    fn networks(&self, lab: &str) -> Vec<String>;
    /// Flows of the run in this folder.
    fn flows(&self, run: &str) -> Vec<String>;
}

/// The labs and runs of this host.
struct Host;

impl Known for Host {
    fn labs(&self) -> Vec<String> {
        let labs = constel_control::list().unwrap_or_default().into_iter();
        labs.map(|lab| lab.lab).collect()
    }

    fn nodes(&self, lab: &str) -> Vec<String> {
        let shown = Observer::attach(lab).and_then(|lab| lab.show());
        let nodes = shown.ok().and_then(|shown| shown.node_list);
        let nodes = nodes.into_iter().flatten();
        nodes.map(|node| node.name).collect()
    }

    fn networks(&self, lab: &str) -> Vec<String> {
        let networks = Observer::attach(lab).and_then(|lab| lab.networks());
        let networks = networks.unwrap_or_default().into_iter();
        networks.map(|network| network.network).collect()
    }

    fn flows(&self, run: &str) -> Vec<String> {
        let files = fs::read_dir(Path::new(run).join("flows"));
        let files = files.into_iter().flatten().flatten();
        let names = files.filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let flow = name.strip_suffix(".csv")?;
            (!flow.contains('.')).then(|| flow.to_owned())
        });
        names.collect()
    }
}

/// Returns the names that begin with the last word and can stand there, sorted.
fn candidates(command: &Command, words: &[String], known: &impl Known) -> Vec<String> {
    let Some((last, before)) = words.split_last() else {
        return Vec::new();
    };
    let Some((id, values)) = place(command, before) else {
        return Vec::new();
    };
    let value = |id: &str| {
        values
            .iter()
            .find(|(of, _)| of == id)
            .map(|(_, value)| value.as_str())
    };
    let nodes = || value("lab").map(|lab| known.nodes(lab)).unwrap_or_default();
    let mut names = match id.as_str() {
        "lab" | "labs" | "target" => known.labs(),
        "node" | "nodes" | "a" | "b" | "of" | "satellite" => nodes(),
        // The arguments of `cp`: a path in a node.
        "from" | "to" => nodes().into_iter().map(|node| node + ":").collect(),
        "network" => value("lab")
            .map(|lab| known.networks(lab))
            .unwrap_or_default(),
        "flow" => value("run").map(|run| known.flows(run)).unwrap_or_default(),
        _ => Vec::new(),
    };
    names.retain(|name| name.starts_with(last.as_str()));
    names.sort();
    names
}

/// The positional arguments of a verb so far: their names and values.
type Values = Vec<(String, String)>;

/// Returns the name of the positional argument that comes after these words, with those before it. `None` if the next word is
/// the value of a flag, or belongs to a command in a node.
fn place(command: &Command, words: &[String]) -> Option<(String, Values)> {
    let (mut command, mut values) = (command, Values::new());
    let mut words = words.iter();
    let mut only_values = false;
    while let Some(word) = words.next() {
        if word == "--" {
            only_values = true;
        } else if word.starts_with('-') && word != "-" && !only_values {
            let takes_value =
                !word.contains('=') && flag(command, word)?.get_action().takes_values();
            // At the end of the words, the value is the word that is completed.
            if takes_value && words.next().is_none() {
                return None;
            }
        } else if let Some(verb) = command.find_subcommand(word).filter(|_| values.is_empty()) {
            command = verb;
        } else {
            let id = positional(command, values.len())?;
            values.push((id.get_id().to_string(), word.clone()));
        }
    }
    let next = positional(command, values.len())?;
    let own = next.get_id().to_string();
    (own != "command").then_some((own, values))
}

/// Returns the positional argument of the value with this index; the last one may have several values.
fn positional(command: &Command, index: usize) -> Option<&Arg> {
    let all: Vec<&Arg> = command.get_positionals().collect();
    let last = all.last().copied();
    let repeated = last.filter(|last| last.get_action().takes_values() && is_repeated(last));
    all.get(index).copied().or(repeated)
}

fn is_repeated(arg: &Arg) -> bool {
    arg.get_num_args()
        .is_some_and(|count| count.max_values() > 1)
}

fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.trim_start_matches('-');
    let mut flags = command.get_arguments();
    flags.find(|arg| match word.starts_with("--") {
        true => arg.get_long() == Some(name),
        false => arg
            .get_short()
            .is_some_and(|short| name == short.to_string()),
    })
}

/// Returns the completion script of a shell with names of labs, nodes, networks and flows. `script` has verbs and flags.
pub(crate) fn with_names(shell: clap_complete::Shell, script: &str) -> String {
    use clap_complete::Shell;
    match shell {
        Shell::Bash => format!("{script}\n{BASH}"),
        Shell::Fish => format!("{script}\n{FISH}"),
        Shell::Zsh => zsh(script),
        _ => script.to_owned(),
    }
}

const BASH: &str = r#"_constel_with_names() {
    local names
    mapfile -t names < <("$1" names -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ ${#names[@]} -gt 0 ]]; then
        COMPREPLY=("${names[@]}")
    else
        _constel "$@"
    fi
}
complete -F _constel_with_names -o nosort -o bashdefault -o default constel
"#;

const FISH: &str = r#"function __constel_names
    set -l typed (commandline -opc) (commandline -ct)
    constel names -- $typed[2..] 2>/dev/null
end
complete -c constel -a "(__constel_names)"
"#;

/// The words as typed: the completion of verbs changes `words`.
const ZSH: &str = r#"_constel_names() {
    local -a typed names
    typed=("${(@z)LBUFFER}")
    [[ $LBUFFER == *' ' ]] && typed+=('')
    names=("${(@f)$(constel names -- "${(@)typed[2,-1]}" 2>/dev/null)}")
    compadd -a names
}

"#;

/// Positional arguments of the generated script have the action `_default`.
fn zsh(script: &str) -> String {
    let names = [
        "lab", "labs", "target", "node", "nodes", "a", "b", "of", "from", "to", "network", "flow",
    ];
    let mut text = String::new();
    for line in script.split_inclusive('\n') {
        if line.starts_with("if [ \"$funcstack[1]\"") {
            text.push_str(ZSH);
        }
        let own = line
            .trim_start()
            .trim_start_matches('\'')
            .trim_start_matches(['*', ':']);
        let is_name = own
            .split_once(" -- ")
            .is_some_and(|(id, _)| names.contains(&id));
        match is_name {
            true => text.push_str(&line.replace(":_default'", ":_constel_names'")),
            false => text.push_str(line),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Known for Fixed {
        fn labs(&self) -> Vec<String> {
            vec!["mine".to_owned(), "other".to_owned()]
        }

        fn nodes(&self, lab: &str) -> Vec<String> {
            assert_eq!(lab, "mine");
            vec!["west".to_owned(), "east".to_owned()]
        }

        fn networks(&self, _: &str) -> Vec<String> {
            vec!["backbone".to_owned()]
        }

        fn flows(&self, run: &str) -> Vec<String> {
            vec![format!("of-{run}")]
        }
    }

    fn completed(line: &str) -> Vec<String> {
        let mut command = Cli::command();
        command.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        candidates(&command, &words, &Fixed)
    }

    #[test]
    fn names_come_where_they_can_stand() {
        assert_eq!(completed("exec "), ["mine", "other"]);
        assert_eq!(completed("exec m"), ["mine"]);
        assert_eq!(completed("exec mine "), ["east", "west"]);
        assert_eq!(completed("exec --json mine w"), ["west"]);
        assert_eq!(completed("exec --at-once 4 mine w"), ["west"]);
        assert_eq!(completed("link set mine w"), ["west"]);
        assert_eq!(completed("link mine west "), ["east", "west"]);
        assert_eq!(completed("node stop mine west e"), ["east"]);
        assert_eq!(completed("cp mine w"), ["west:"]);
        assert_eq!(completed("network join mine "), ["backbone"]);
        assert_eq!(completed("down mine o"), ["other"]);
        assert_eq!(completed("logs mine e"), ["east"]);
        assert_eq!(completed("results plot dir "), ["of-dir"]);
    }

    #[test]
    fn nothing_comes_elsewhere() {
        for line in [
            "",
            "ex",
            "run ",
            "exec mine west -- ",
            "exec mine west ls ",
            "exec --at-once ",
            "exec --no-such-flag ",
        ] {
            assert_eq!(completed(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn scripts_ask_for_names() {
        let script = |shell| {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "constel", &mut script);
            with_names(shell, &String::from_utf8(script).unwrap())
        };
        let zsh = script(clap_complete::Shell::Zsh);
        assert!(zsh.matches(":_constel_names'").count() > 20, "{zsh}");
        assert!(zsh.contains("\n_constel_names() {"));
        assert!(
            script(clap_complete::Shell::Bash)
                .ends_with("-F _constel_with_names -o nosort -o bashdefault -o default constel\n")
        );
        assert!(script(clap_complete::Shell::Fish).contains("constel names -- "));
    }
}
