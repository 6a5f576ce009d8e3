//! The questions and answers by which a form is filled in.

use pentad_import::secrecy::is_secret_name;
use pentad_mcp::misfits;
use pentad_model::form::{Choice, Field, Kind};
use pentad_model::text::visible;
use pentad_model::{Form, FormAnswer};
use serde_json::{Map, Number, Value};

/// How often a value that does not fit is asked for again.
const TRIES: usize = 20;

/// A terminal, or what stands for one.
pub trait Lines {
    /// Shows a text as it is.
    fn say(&mut self, text: &str);
    /// Shows a prompt and returns the line that was typed; nothing when there are no more.
    fn read(&mut self, prompt: &str, hidden: bool) -> Option<String>;
}

/// What a person said to a form as a whole.
enum Decision {
    Yes,
    No,
    Away,
}

/// Shows a form and has it filled in, field by field.
pub fn dialogue(form: &Form, lines: &mut dyn Lines) -> FormAnswer {
    let away = || FormAnswer::unanswered("it was put away");
    lines.say(&heading(form));
    match decide(lines, "Fill it in?", form) {
        Decision::Yes => {}
        Decision::No => return FormAnswer::Declined,
        Decision::Away => return away(),
    }
    let fields = form.fields();
    let mut values = Map::new();
    for field in &fields {
        match ask(form, field, lines) {
            None => return away(),
            Some(None) => {}
            Some(Some(value)) => {
                values.insert(field.name.to_owned(), value);
            }
        }
    }
    if !fields.is_empty() {
        lines.say(&review(&fields, &values));
        match decide(lines, "Send this?", form) {
            Decision::Yes => {}
            Decision::No => return FormAnswer::Declined,
            Decision::Away => return away(),
        }
    }
    FormAnswer::Accepted(values)
}

/// Tells whether a value of the field should not be shown.
pub fn is_hidden(field: &Field<'_>) -> bool {
    field.format == Some("password") || is_secret_name(field.name)
}

/// Says what a field takes.
pub fn kind_words(field: &Field<'_>) -> String {
    let list = |choices: &[Choice<'_>]| {
        let names: Vec<String> = choices.iter().map(|choice| line(choice.value)).collect();
        names.join(", ")
    };
    match &field.kind {
        Kind::Text => field.format.map_or_else(|| "text".to_owned(), line),
        Kind::Number => "number".to_owned(),
        Kind::Integer => "whole number".to_owned(),
        Kind::Flag => "yes or no".to_owned(),
        Kind::Choice(choices) => format!("one of {}", list(choices)),
        Kind::Choices(choices) => format!("any of {}, with commas between", list(choices)),
    }
}

/// Quotes what a server says, so that no line of it can pass for one of ours.
pub fn quoted(text: &str) -> String {
    visible(text).lines().map(|line| format!("> {line}\n")).collect()
}

/// Shows a server's word on one line: a second one could pass for one of ours.
fn line(text: &str) -> String {
    visible(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn heading(form: &Form) -> String {
    format!(
        "\nThe server '{}' asks; the quoted lines are its words.\n{}",
        form.server,
        quoted(&form.message)
    )
}

fn decide(lines: &mut dyn Lines, question: &str, form: &Form) -> Decision {
    let prompt = format!(
        "{question} [y] yes, to '{}'  [n] decline  [Enter] put it away: ",
        form.server
    );
    for _ in 0..TRIES {
        let Some(said) = lines.read(&prompt, false) else {
            return Decision::Away;
        };
        match said.trim().to_ascii_lowercase().as_str() {
            "" => return Decision::Away,
            "y" | "yes" => return Decision::Yes,
            "n" | "no" => return Decision::No,
            _ => {}
        }
    }
    Decision::Away
}

/// Asks for one field until the value fits. Nothing at the end of the lines, nothing inside for a field left out.
#[allow(
    clippy::option_option,
    reason = "the end of the lines and an empty field are two things"
)]
fn ask(form: &Form, field: &Field<'_>, lines: &mut dyn Lines) -> Option<Option<Value>> {
    if let Some(description) = field.description {
        lines.say(&quoted(description));
    }
    if let Kind::Choice(choices) | Kind::Choices(choices) = &field.kind {
        for (number, choice) in (1..).zip(choices) {
            let title = choice.title.filter(|title| *title != choice.value);
            let title = title.map_or_else(String::new, |title| format!(" ({})", line(title)));
            lines.say(&format!("  {number}  {}{title}\n", line(choice.value)));
        }
    }
    let hidden = is_hidden(field);
    let prompt = prompt(field, hidden);
    for _ in 0..TRIES {
        let typed = lines.read(&prompt, hidden)?;
        let value = match parse(field, typed.trim()) {
            Ok(None) if field.required => Err("it must be filled in".to_owned()),
            other => other,
        };
        let wrong = match value {
            Ok(None) => return Some(None),
            Ok(Some(value)) => match misfit(form, field, &value) {
                None => return Some(Some(value)),
                Some(rule) => rule,
            },
            Err(rule) => rule,
        };
        lines.say(&format!("  {wrong}\n"));
    }
    None
}

fn prompt(field: &Field<'_>, hidden: bool) -> String {
    let name = field.title.map_or_else(
        || field.name.to_owned(),
        |title| format!("{} ({})", line(title), field.name),
    );
    let kind = match &field.kind {
        Kind::Choice(_) => "number or value".to_owned(),
        Kind::Choices(_) => "numbers or values, with commas between".to_owned(),
        _ => kind_words(field),
    };
    let standing = match field.default {
        Some(default) if !hidden => format!(", Enter for {}", shown(default)),
        Some(_) => ", Enter for what the server proposes".to_owned(),
        None if field.required => String::new(),
        None => ", Enter to leave it out".to_owned(),
    };
    let hidden = if hidden { ", not shown" } else { "" };
    format!("{name}: {kind}{standing}{hidden}: ")
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => line(text),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => visible(&other.to_string()),
    }
}

/// Reads what was typed as the field takes it; nothing for an empty line without a default.
fn parse(field: &Field<'_>, text: &str) -> Result<Option<Value>, String> {
    if text.is_empty() {
        return Ok(field.default.cloned());
    }
    let value = match &field.kind {
        Kind::Text => text.into(),
        Kind::Integer => text
            .parse::<i64>()
            .map(Value::from)
            .map_err(|_| "it must be a whole number")?,
        Kind::Number => number(text).ok_or("it must be a number")?,
        Kind::Flag => match text.to_ascii_lowercase().as_str() {
            "y" | "yes" | "true" => true.into(),
            "n" | "no" | "false" => false.into(),
            _ => return Err("it must be yes or no".to_owned()),
        },
        Kind::Choice(choices) => chosen(choices, text)?,
        Kind::Choices(choices) => text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| chosen(choices, part))
            .collect::<Result<_, _>>()?,
    };
    Ok(Some(value))
}

fn number(text: &str) -> Option<Value> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    text.parse().ok().and_then(Number::from_f64).map(Value::Number)
}

/// A value as it is goes before a number: values may be numbers, too.
fn chosen(choices: &[Choice<'_>], text: &str) -> Result<Value, String> {
    let by_value = choices.iter().find(|choice| choice.value == text);
    let by_number = || {
        text.parse::<usize>()
            .ok()
            .and_then(|n| choices.get(n.checked_sub(1)?))
    };
    by_value
        .or_else(by_number)
        .map(|choice| choice.value.into())
        .ok_or_else(|| format!("'{}' is none of the choices", visible(text)))
}

/// Says what is wrong with one value, without it.
fn misfit(form: &Form, field: &Field<'_>, value: &Value) -> Option<String> {
    let mut values = Map::new();
    values.insert(field.name.to_owned(), value.clone());
    let wrong = misfits(form, &values);
    wrong
        .into_iter()
        .find(|wrong| wrong.field == field.name)
        .map(|wrong| wrong.rule)
}

fn review(fields: &[Field<'_>], values: &Map<String, Value>) -> String {
    let reviewed = fields.iter().map(|field| {
        let value = match values.get(field.name) {
            None => "(left out)".to_owned(),
            Some(_) if is_hidden(field) => "(not shown)".to_owned(),
            Some(value) => shown(value),
        };
        format!("  {} = {value}\n", field.name)
    });
    format!("\n{}", reviewed.collect::<String>())
}

#[cfg(test)]
mod tests;
