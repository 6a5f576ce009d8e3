//! From a verb's argument object to a typed request.

use serde_json::{Map, Value};

use super::fields::{Fields, type_name};
use super::{Budget, Call, Delegate, Format, PlanUpdate, Read, Request, Verb, Work, Write};
use crate::address::{Address, RunPart};
use crate::contract::arguments;
use crate::id::IdEnding;
use crate::options::{self, Options};
use crate::plan::Plan;
use crate::refusal::{Refusal, RefusalKind};

pub(super) fn parse(verb: Verb, value: &Value) -> Result<Request, Refusal> {
    let fields = Fields::open(verb, value, arguments(verb))?;
    match verb {
        Verb::Read => read(&fields).map(Request::Read),
        Verb::Write => write(&fields).map(Request::Write),
        Verb::Call => call(&fields).map(Request::Call),
        Verb::Delegate => delegate(&fields).map(|d| Request::Delegate(Box::new(d))),
        Verb::Plan => plan(&fields).map(Request::Plan),
    }
}

fn read(fields: &Fields<'_>) -> Result<Read, Refusal> {
    let address = Address::parse(fields.required("address")?)?;
    let format = match fields.text("format")? {
        None | Some("markdown") => Format::Markdown,
        Some("json") => Format::Json,
        Some(other) => {
            return Err(
                Refusal::new(RefusalKind::BadRequest, other, format!("'{other}' is no format."))
                    .supported(["markdown", "json"]),
            );
        }
    };
    let options = Options::for_read(address.family(), &fields.object("options")?)?;
    Ok(Read {
        address,
        format,
        options,
    })
}

fn write(fields: &Fields<'_>) -> Result<Write, Refusal> {
    let dry_run = fields.flag("dryRun", false)?;
    let address = Address::parse(fields.required("address")?)?;
    if let Address::Run(Some(run), part) = &address
        && *part != RunPart::Record
    {
        let message = format!("{address} cannot be written.");
        return Err(
            Refusal::new(RefusalKind::NotSupported, address.to_string(), message)
                .next_step(format!("write run:{run} steers the run itself")),
        );
    }
    let content = fields.text("content")?.map(str::to_owned);
    let options = Options::for_write(address.family(), &fields.object("options")?)?;
    options::check_dry_run(address.family(), dry_run)?;
    Ok(Write {
        address,
        content,
        options,
        dry_run,
    })
}

fn thread(fields: &Fields<'_>) -> Result<Option<IdEnding>, Refusal> {
    let Some(text) = fields.text("thread")? else {
        return Ok(None);
    };
    let bare = text.trim().strip_prefix("thread:").unwrap_or_else(|| text.trim());
    bare.parse().map(Some).map_err(|e: crate::id::IdError| {
        Refusal::new(RefusalKind::BadRequest, text, format!("{e}."))
            .next_step("pass back the thread that plan or delegate returned, or leave it out")
    })
}

fn call(fields: &Fields<'_>) -> Result<Call, Refusal> {
    let tool = fields.required("tool")?;
    let tool = match tool.strip_prefix("~/tools/") {
        Some(path) => crate::address::decode_tool_name(path).unwrap_or_else(|| path.to_owned()),
        None => tool.to_owned(),
    };
    Ok(Call {
        tool,
        input: fields.object("input")?,
        thread: thread(fields)?,
    })
}

fn delegate(fields: &Fields<'_>) -> Result<Delegate, Refusal> {
    let recipe = fields.text("recipe")?.map(str::trim).filter(|t| !t.is_empty());
    let brief = fields.text("brief")?.filter(|t| !t.trim().is_empty());
    let script = fields.text("script")?.filter(|t| !t.trim().is_empty());
    let work = match (recipe, brief, script) {
        (Some(recipe), None, None) => {
            let name = recipe.strip_prefix("~/tools/").unwrap_or(recipe);
            Work::Recipe(crate::address::decode_tool_name(name).unwrap_or_else(|| name.to_owned()))
        }
        (None, Some(brief), None) => Work::Brief(brief.to_owned()),
        (None, None, Some(script)) => Work::Script(script.to_owned()),
        (None, None, None) => {
            return Err(Refusal::new(
                RefusalKind::BadRequest,
                "delegate",
                "delegate needs something to run.",
            )
            .supported(["recipe", "brief", "script"]));
        }
        _ => {
            let message = "delegate takes one of recipe, brief and script, not several.";
            return Err(Refusal::new(RefusalKind::BadRequest, "delegate", message));
        }
    };
    let agent =
        fields
            .text("agentId")?
            .map(str::parse)
            .transpose()
            .map_err(|e: crate::actor::NameError| {
                Refusal::new(RefusalKind::BadRequest, "agentId", format!("{e}."))
                    .next_step("read agent: lists the agents")
            })?;
    let output = match fields.value("output") {
        None => None,
        Some(schema @ Value::Object(_)) => Some(schema.clone()),
        Some(other) => {
            let message = format!(
                "delegate's 'output' must be a JSON Schema object, not {}.",
                type_name(other)
            );
            return Err(Refusal::new(RefusalKind::BadRequest, "output", message));
        }
    };
    Ok(Delegate {
        title: fields.text("title")?.map(str::to_owned),
        work,
        input: fields.object("input")?,
        agent,
        tools: fields.texts("tools")?,
        output,
        budget: budget(&fields.object("budget")?)?,
        awaits: fields.flag("await", true)?,
        thread: thread(fields)?,
    })
}

const BUDGET_KEYS: [&str; 5] = ["wallSeconds", "tokens", "costUsd", "children", "depth"];

pub(super) fn budget(given: &Map<String, Value>) -> Result<Budget, Refusal> {
    let mut budget = Budget::default();
    for (key, value) in given {
        let refuse = |why: &str| {
            Refusal::new(
                RefusalKind::BadRequest,
                format!("budget.{key}"),
                format!("budget.{key} {why}."),
            )
            .supported(BUDGET_KEYS)
        };
        let number = value
            .as_f64()
            .filter(|n| n.is_finite() && *n >= 0.0 && *n <= 1e15);
        let whole = || value.as_u64().ok_or_else(|| refuse("must be a whole number"));
        let scaled = |by: f64| {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // bounded above
            number
                .map(|n| (n * by) as u64)
                .ok_or_else(|| refuse("must be a number, zero or more"))
        };
        match key.as_str() {
            "wallSeconds" => budget.wall_ms = Some(scaled(1e3)?),
            "costUsd" => budget.cost_micros = Some(scaled(1e6)?),
            "tokens" => budget.tokens = Some(whole()?),
            "children" => budget.children = Some(whole()?),
            "depth" => budget.depth = Some(whole()?),
            _ => return Err(refuse("is no limit")),
        }
    }
    Ok(budget)
}

fn plan(fields: &Fields<'_>) -> Result<PlanUpdate, Refusal> {
    let Some(steps) = fields.value("steps") else {
        return Err(
            Refusal::new(RefusalKind::BadRequest, "steps", "plan needs 'steps'.")
                .next_step("plan {\"steps\":[{\"id\":\"a\",\"label\":\"…\",\"status\":\"pending\"}]}"),
        );
    };
    let plan = Plan::parse(fields.text("title")?, steps)?;
    Ok(PlanUpdate {
        plan,
        thread: thread(fields)?,
    })
}
