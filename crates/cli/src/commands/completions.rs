//! `completions`: what clap makes of the definition of the command line, and the names of the locks in use, which the
//! shell gets from `lockkeeper ls` when a key is pressed.
//!
//! clap's own engine for values that are known at run time is not stable yet, so the functions for bash, zsh and fish
//! are ours. The definition says which commands take a name, and which options a value.

use std::collections::BTreeSet;
use std::io;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::exit::CommandFailure;
use crate::output;

pub(super) fn completions(shell: Shell) -> Result<u8, CommandFailure> {
    let mut command = Cli::command();
    // Otherwise its subcommands are not defined yet.
    command.build();
    let names = NameTakers::of(&command);
    let mut generated = Vec::new();
    clap_complete::generate(shell, &mut command, "lockkeeper", &mut generated);
    let generated = String::from_utf8_lossy(&generated);
    let script = match shell {
        Shell::Bash => format!("{generated}\n{}", names.fill(BASH)),
        Shell::Zsh => names.fill_zsh(&generated),
        Shell::Fish => format!("{generated}\n{}", names.fill(FISH)),
        _ => generated.into_owned(),
    };
    output::print(&script).map(|()| 0)
}

/// What a shell has to know to find a lock's name in a line.
struct NameTakers {
    /// The commands whose first argument is a name, or the beginning of one.
    commands: Vec<String>,
    /// The options whose value is the next word.
    options: BTreeSet<String>,
    /// How zsh's completions of clap describe such an argument, by the beginning and the end of their lines.
    zsh_lines: Vec<String>,
}

impl NameTakers {
    fn of(cli: &Command) -> Self {
        let is_name = |argument: &Arg| matches!(argument.get_id().as_str(), "name" | "prefix");
        let first = |command: &Command| command.get_positionals().next().filter(|first| is_name(first)).cloned();
        let takers: Vec<_> = cli.get_subcommands().filter_map(|command| Some((command, first(command)?))).collect();
        let with_value = |argument: &&Arg| !argument.is_positional() && argument.get_action().takes_values();
        let of_all = cli.get_subcommands().chain([cli]).flat_map(Command::get_arguments);
        let options = of_all.filter(with_value).flat_map(|option| {
            let short = option.get_short().map(|letter| format!("-{letter}"));
            short.into_iter().chain(option.get_long().map(|name| format!("--{name}")))
        });
        Self {
            commands: takers.iter().map(|(command, _)| command.get_name().to_owned()).collect(),
            options: options.collect(),
            zsh_lines: takers.iter().map(|(_, first)| format!(":{} -- ", first.get_id())).collect(),
        }
    }

    /// Puts the lists into a script, as words between `|` or blanks.
    fn fill(&self, script: &str) -> String {
        let options: Vec<_> = self.options.iter().map(String::as_str).collect();
        script
            .replace("COMMANDS_OR", &self.commands.join("|"))
            .replace("COMMANDS", &self.commands.join(" "))
            .replace("OPTIONS_OR", &options.join("|"))
            .replace("OPTIONS", &options.join(" "))
    }

    /// Makes zsh ask for names where clap leaves the argument to zsh, and defines the function before it is called.
    fn fill_zsh(&self, generated: &str) -> String {
        let mut script = String::new();
        for line in generated.lines() {
            let plain = line.trim_start_matches('\'').trim_start_matches(':');
            let is_name = self.zsh_lines.iter().any(|start| plain.starts_with(start.trim_start_matches(':')));
            match line.strip_suffix(":_default' \\").filter(|_| is_name) {
                Some(start) => script.push_str(&format!("{start}:_lockkeeper_names' \\")),
                None => script.push_str(line),
            }
            script.push('\n');
            if line.starts_with("autoload ") {
                script.push_str(&self.fill(ZSH));
            }
        }
        script
    }
}

/// Reads the line itself: bash would split URLs and names at each colon.
const BASH: &str = r#"_lockkeeper_names() {
    local line="${COMP_LINE:0:COMP_POINT}" command= at cur name prefix
    local -a words service=()
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    for ((at = 1; at < ${#words[@]} - 1; at++)); do
        case "${words[at]}" in
            --connect|--config) service+=("${words[at]}" "${words[at + 1]}"); ((at++)) ;;
            --connect=*|--config=*) service+=("${words[at]}") ;;
            OPTIONS_OR) ((at++)) ;;
            --) return 1 ;;
            -*) ;;
            *) [[ -n $command ]] && return 1; command="${words[at]}" ;;
        esac
    done
    # Otherwise the word at the cursor is the value of an option.
    ((at == ${#words[@]} - 1)) || return 1
    cur="${words[at]}"
    [[ $cur == -* ]] && return 1
    case "$command" in COMMANDS_OR) ;; *) return 1 ;; esac
    COMPREPLY=()
    # What stands before the last `:` or `=` of the word is kept by the shell.
    prefix="${cur%"${cur##*[:=]}"}"
    while IFS= read -r name; do
        name=$(printf '%q' "$name")
        COMPREPLY+=("${name#"$prefix"}")
    done < <("${words[0]/#\~/$HOME}" "${service[@]}" ls --names -- "$cur" 2>/dev/null)
    ((${#COMPREPLY[@]} > 0))
}

_lockkeeper_with_names() {
    _lockkeeper_names || _lockkeeper "$@"
}

complete -F _lockkeeper_with_names -o bashdefault -o default lockkeeper
"#;

const ZSH: &str = r#"
(( $+functions[_lockkeeper_names] )) ||
_lockkeeper_names() {
    local -a service names
    local at
    for (( at = 1; at < CURRENT; at++ )); do
        case $words[at] in
            (--connect|--config) service+=($words[at] $words[at+1]); (( at++ )) ;;
            (--connect=*|--config=*) service+=($words[at]) ;;
        esac
    done
    for at in --connect --config; do
        [[ -n ${opt_args[$at]} ]] && service+=($at ${opt_args[$at]//\\:/:})
    done
    names=("${(@f)$(lockkeeper $service ls --names -- "${(Q)PREFIX}" 2>/dev/null)}")
    compadd -- ${names:#}
}
"#;

const FISH: &str = r#"function __fish_lockkeeper_names
    # Fails where no lock's name is wanted: before a command, after a name, and for the value of an option.
    set -l words (commandline -opc)
    set -l service
    set -l command
    set -l skip
    for word in $words[2..]
        if test -n "$skip"
            test "$skip" = service; and set -a service $word
            set skip
            continue
        end
        switch $word
            case --connect --config
                set -a service $word
                set skip service
            case '--connect=*' '--config=*'
                set -a service $word
            case --
                return 1
            case '-*'
                contains -- $word OPTIONS; and set skip value
            case '*'
                test -n "$command"; and return 1
                set command $word
        end
    end
    test -z "$skip"; or return 1
    contains -- "$command" COMMANDS; or return 1
    lockkeeper $service ls --names -- (commandline -ct) 2>/dev/null
end

complete -c lockkeeper -n "__fish_seen_subcommand_from COMMANDS" -f -a "(__fish_lockkeeper_names)"
"#;

/// Prints the manual page of the command and then those of its subcommands.
pub(super) fn man() -> Result<u8, CommandFailure> {
    let mut text = Vec::new();
    pages(&mut text).map_err(|error| CommandFailure::ours(format!("cannot make the manual pages: {error}")))?;
    output::print(&String::from_utf8_lossy(&text)).map(|()| 0)
}

fn pages(text: &mut Vec<u8>) -> io::Result<()> {
    let mut command = Cli::command();
    command.build();
    Man::new(command.clone()).render(text)?;
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        Man::new(subcommand.clone()).render(text)?;
    }
    Ok(())
}
