//! `pervade reference`: the definitions of all commands and settings as data. The pages of the documentation are made of it
//! (`scripts/docs`), so that they cannot differ from `--help`.

use std::any::TypeId;

use clap::{Arg, Args, Command, CommandFactory};
use pervade::Result;
use pervade::config::Clusters;
use serde_json::{Value, json};

use crate::Outcome;
use crate::args::Cli;
use crate::console::Console;
use crate::settings::{self, Defaults};

/// Print the definitions of all commands and settings as JSON
#[derive(Args)]
pub(crate) struct ReferenceArgs {}

/// Runs it.
pub(crate) fn run(_: &ReferenceArgs, console: &Console) -> Result<Outcome> {
    let reference = reference();
    console.result(&reference, &reference.to_string())?;
    Ok(Outcome::Done)
}

fn reference() -> Value {
    let mut root = crate::args::command();
    root.build();
    let defined = Cli::command();
    json!({
        "about": text(root.get_about()),
        "everywhere": arguments(&root, &defined, |arg| arg.is_global_set()),
        "commands": commands(&root, &defined),
        "settings": settings_keys(),
    })
}

fn text(styled: Option<&clap::builder::StyledStr>) -> Option<String> {
    styled.map(ToString::to_string)
}

/// The visible commands of a command, in the order of `defined`: those whose help was changed come last otherwise. `help` is
/// left out.
fn commands(parent: &Command, defined: &Command) -> Vec<Value> {
    let shown = |c: &&Command| !c.is_hide_set() && c.get_name() != "help";
    let each = defined.get_subcommands().filter(shown).filter_map(|defined| {
        parent.find_subcommand(defined.get_name()).map(|found| command(found, defined))
    });
    each.collect()
}

fn command(command: &Command, defined: &Command) -> Value {
    let usage = command.clone().render_usage().to_string();
    json!({
        "name": command.get_name(),
        "about": text(command.get_about()),
        "usage": usage.trim_start_matches("Usage:").trim(),
        "notes": text(command.get_after_help()),
        "arguments": arguments(command, defined, |arg| !arg.is_global_set()),
        "commands": commands(command, defined),
    })
}

/// The visible arguments that pass, in the order of `defined`, which has neither `--help` nor `--version`.
fn arguments(command: &Command, defined: &Command, passes: impl Fn(&Arg) -> bool) -> Vec<Value> {
    let each =
        defined.get_arguments().filter(|arg| !arg.is_hide_set() && passes(arg)).filter_map(|defined| {
            command.get_arguments().find(|arg| arg.get_id() == defined.get_id()).map(argument)
        });
    each.collect()
}

fn argument(arg: &Arg) -> Value {
    let takes_value = arg.get_action().takes_values();
    let names = arg.get_value_names().filter(|_| takes_value).unwrap_or_default();
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    json!({
        "short": arg.get_short(),
        "long": arg.get_long(),
        "value": names.first().map(ToString::to_string),
        "required": arg.is_required_set(),
        "heading": arg.get_help_heading(),
        "help": text(arg.get_help()),
        "default": (takes_value && !defaults.is_empty()).then(|| defaults.join(",")),
        "values": possible_values(arg),
    })
}

fn possible_values(arg: &Arg) -> Vec<String> {
    if !arg.get_action().takes_values() {
        return Vec::new();
    }
    arg.get_possible_values().iter().map(|value| value.get_name().to_string()).collect()
}

/// The keys of a settings file: each is a long flag of `fit`.
fn settings_keys() -> Vec<Value> {
    let defaults = Defaults::new();
    let key = |arg: &Arg| {
        let (robust, paper) = defaults.of(arg.get_id().as_str());
        json!({
            "key": arg.get_id().as_str(),
            "type": kind(arg),
            "values": possible_values(arg),
            "default": robust,
            "paper": paper,
            "heading": arg.get_help_heading(),
            "help": text(arg.get_help()),
        })
    };
    settings::fit_flags().get_arguments().map(key).collect()
}

/// The type of a setting's value in words, from the type that its flag is parsed into.
fn kind(arg: &Arg) -> &'static str {
    let held = arg.get_value_parser().type_id();
    let is_list = arg.get_value_delimiter().is_some();
    match () {
        () if !possible_values(arg).is_empty() => "name",
        () if held == TypeId::of::<Clusters>() => "whole number or \"auto\"",
        () if is_list => "list of whole numbers",
        () if held == TypeId::of::<usize>() || held == TypeId::of::<u64>() => "whole number",
        () if held == TypeId::of::<f32>() => "number",
        () => unreachable!("a setting of a new type: {}", arg.get_id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(items: &'a Value, name: &str, value: &str) -> &'a Value {
        items
            .as_array()
            .unwrap()
            .iter()
            .find(|item| item[name] == value)
            .unwrap_or_else(|| panic!("no {value}"))
    }

    #[test]
    fn every_visible_command_is_there_with_its_flags() {
        let reference = reference();
        let mut root = crate::args::command();
        root.build();
        let visible = root.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
        for expected in visible {
            let found = find(&reference["commands"], "name", expected.get_name());
            let flags: Vec<&str> = found["arguments"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|arg| arg["long"].as_str())
                .collect();
            for arg in expected.get_arguments().filter(|arg| !arg.is_global_set()) {
                let Some(long) = arg.get_long().filter(|&long| long != "help" && long != "version") else {
                    continue;
                };
                assert!(flags.contains(&long), "{} --{long}", expected.get_name());
            }
            assert!(found["usage"].as_str().unwrap().starts_with("pervade "), "{found}");
            assert!(found["about"].is_string());
        }
        assert!(
            reference["commands"].as_array().unwrap().iter().all(|command| command["name"] != "reference")
        );
        let fit = find(&reference["commands"], "name", "fit");
        let recipe = find(&fit["arguments"], "long", "recipe");
        assert_eq!(recipe["values"], json!(["robust", "paper"]));
        assert!(find(&fit["arguments"], "value", "DATA")["required"].as_bool().unwrap());
        let bench = find(&reference["commands"], "name", "bench");
        assert!(
            find(&bench["commands"], "name", "step")["usage"]
                .as_str()
                .unwrap()
                .starts_with("pervade bench step")
        );
        assert_eq!(find(&reference["everywhere"], "long", "device")["default"], "auto");
    }

    #[test]
    fn every_setting_has_a_type_and_its_defaults() {
        let keys = settings_keys();
        assert_eq!(keys.len(), Defaults::new().keys().len());
        let keys = Value::Array(keys);
        let of = |key, field: &str| find(&keys, "key", key)[field].clone();
        assert_eq!(of("hidden", "type"), "list of whole numbers");
        assert_eq!(
            (of("hidden", "default"), of("hidden", "paper")),
            (json!("from the data"), json!("500,500,2000"))
        );
        assert_eq!(of("decay", "type"), "number");
        assert_eq!(
            (of("clusters", "type"), of("clusters", "default")),
            (json!("whole number or \"auto\""), json!(null))
        );
        assert_eq!(of("keep", "values"), json!(["best", "last"]));
        assert!(!of("decay", "help").as_str().unwrap().contains("[default"));
    }
}
