//! References to imported recipes: `{alias.defaults.x}`, `{alias.name}`, with fallbacks and choices.

use serde_json::{Map, Value};

use super::{ImportError, Target};

/// Replaces `{alias.…}` everywhere in a value.
pub(super) fn replace_references(value: &mut Value, targets: &[(String, Target)]) -> Result<(), ImportError> {
    match value {
        Value::String(text) => {
            if let Some(replaced) = replaced_text(text, targets)? {
                *value = replaced;
            }
            Ok(())
        }
        Value::Array(items) => items
            .iter_mut()
            .try_for_each(|item| replace_references(item, targets)),
        Value::Object(map) => map
            .values_mut()
            .try_for_each(|item| replace_references(item, targets)),
        _ => Ok(()),
    }
}

fn replaced_text(text: &str, targets: &[(String, Target)]) -> Result<Option<Value>, ImportError> {
    let mut out = String::new();
    let mut rest = text;
    let mut changed = false;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let token = after.split_once('}').filter(|(token, _)| !token.contains('{'));
        let Some((token, tail)) = token else {
            out.push('{');
            rest = after;
            continue;
        };
        match reference_value(token, targets)? {
            Some(found) => {
                if before.is_empty() && tail.is_empty() && out.is_empty() {
                    return Ok(Some(found));
                }
                changed = true;
                out.push_str(&pentad_template::plain_text(&found));
            }
            None => {
                out.push('{');
                out.push_str(token);
                out.push('}');
            }
        }
        rest = tail;
    }
    out.push_str(rest);
    Ok(changed.then_some(Value::String(out)))
}

/// Returns the value of a token that starts with an alias; other tokens are left for the run.
fn reference_value(token: &str, targets: &[(String, Target)]) -> Result<Option<Value>, ImportError> {
    if let Some((condition, branches)) = token.split_once('?')
        && let Some((yes, no)) = branches.split_once(':')
        && let Some(found) = lookup(condition.trim(), targets)
    {
        let falsy = match &found {
            None | Some(Value::Null | Value::Bool(false)) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Number(number)) => number.as_f64() == Some(0.0),
            Some(_) => false,
        };
        return Ok(Some(alternative(if falsy { no } else { yes }, targets)));
    }
    if let Some((reference, fallback)) = token.split_once('=')
        && let Some(found) = lookup(reference.trim(), targets)
    {
        return Ok(Some(
            found
                .filter(|value| !value.is_null())
                .unwrap_or_else(|| alternative(fallback, targets)),
        ));
    }
    match lookup(token.trim(), targets) {
        Some(Some(found)) => Ok(Some(found)),
        Some(None) => Err(ImportError::Reference {
            reference: token.trim().to_owned(),
        }),
        None => Ok(None),
    }
}

fn alternative(text: &str, targets: &[(String, Target)]) -> Value {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return Value::String(inner.to_owned());
        }
    }
    lookup(text, targets)
        .flatten()
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Returns `None` if the text does not start with an alias, else what it names.
fn lookup(reference: &str, targets: &[(String, Target)]) -> Option<Option<Value>> {
    let (target, rest) = targets.iter().find_map(|(alias, target)| {
        let rest = reference.strip_prefix(alias.as_str())?.strip_prefix('.')?;
        Some((target, rest))
    })?;
    let stem = || {
        target
            .path
            .file_stem()
            .map(|stem| Value::String(stem.to_string_lossy().into_owned()))
    };
    let found = match rest.split_once('.') {
        Some(("defaults", path)) => dig(&target.defaults, path),
        Some(("values", path)) => dig(&target.values, path),
        None if rest == "name" => stem(),
        None if rest == "file" => Some(Value::String(target.path.to_string_lossy().into_owned())),
        _ => None,
    };
    Some(found)
}

fn dig(map: &Map<String, Value>, path: &str) -> Option<Value> {
    if let Some(found) = map.get(path) {
        return Some(found.clone());
    }
    let (first, rest) = path.split_once('.')?;
    dig(map.get(first)?.as_object()?, rest)
}
