//! Saying something to a run: end, an event, an answer, once more.

use pentad_model::Caller;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::run::Run;
use pentad_model::verb::{Budget, Write};
use pentad_program::{Canceling, Delivery, RunControl, RunStore, WaitFor};
use serde_json::{Value, json};

use super::waits;
use crate::durable::DurableRuns;
use crate::scene::Scene;
use crate::show;
use crate::trouble::from_store;

/// What a run can be told.
const OPTIONS: [&str; 4] = ["cancel", "signal", "answer", "retry"];
/// Longest name of an event.
const EVENT_BYTES: usize = 256;
/// Runs that one answer names.
const NAMED: usize = 10;

/// What a run is told.
enum Steering {
    Cancel { reason: String },
    Signal { event: String, value: Value },
    Answer { position: u32, content: Option<String> },
    Retry,
}

impl Steering {
    fn of(write: &Write) -> Result<Self, Refusal> {
        let options = &write.options;
        let given: Vec<&str> = OPTIONS
            .into_iter()
            .filter(|key| options.flag(key) || options.text(key).is_some() || options.number(key).is_some())
            .collect();
        let [one] = given.as_slice() else {
            let message = if given.is_empty() {
                "A run is steered by exactly one option, and none was given.".to_owned()
            } else {
                format!(
                    "A run is steered by exactly one option, and these contradict each other: {}.",
                    given.join(", ")
                )
            };
            return Err(Refusal::new(RefusalKind::BadRequest, "options", message)
                .supported(OPTIONS.map(str::to_owned)));
        };
        let content = write.content.clone();
        Ok(match (*one, options.number("answer")) {
            ("signal", _) => Self::Signal {
                event: event(options.text("signal").unwrap_or_default())?,
                value: content.as_deref().map_or(Ok(Value::Null), value)?,
            },
            ("answer", Some(position)) => Self::Answer {
                position: u32::try_from(position).unwrap_or(u32::MAX),
                content,
            },
            ("cancel", _) => Self::Cancel {
                reason: content.unwrap_or_default().trim().to_owned(),
            },
            _ => {
                if content.is_some() {
                    let message = "A run is started again with its own input; retry takes no content.";
                    return Err(Refusal::new(RefusalKind::BadRequest, "content", message));
                }
                Self::Retry
            }
        })
    }
}

fn event(name: &str) -> Result<String, Refusal> {
    let name = name.trim();
    if name.len() > EVENT_BYTES {
        let message = format!("The name of an event has at most {EVENT_BYTES} bytes.");
        return Err(Refusal::new(RefusalKind::TooLarge, "signal", message));
    }
    Ok(name.to_owned())
}

/// Reads a value: JSON, or a text that does not look like it.
fn value(content: &str) -> Result<Value, Refusal> {
    match serde_json::from_str(content) {
        Ok(value) => Ok(value),
        Err(error) if content.trim_start().starts_with(['{', '[']) => {
            let message = format!("The content begins like JSON and is none: {error}.");
            Err(Refusal::new(RefusalKind::BadRequest, "content", message)
                .next_step("mend it, or write a text that begins so as a JSON string, in double quotes"))
        }
        Err(_) => Ok(Value::from(content)),
    }
}

pub(super) async fn write(
    durable: &DurableRuns,
    scene: &Scene,
    run: &Run,
    write: &Write,
) -> Result<Product, Refusal> {
    let address = format!("run:{}", run.id);
    let steering = Steering::of(write)?;
    let control = durable.control(&address)?;
    let runs = durable.required(&address)?;
    let told = Told {
        run,
        runs,
        control: &*control,
        by: scene.caller.clone(),
        dry: write.dry_run || scene.dry_run,
    };
    match steering {
        Steering::Cancel { reason } => told.cancel(reason).await,
        Steering::Signal { event, value } => told.signal(&event, value).await,
        Steering::Answer { position, content } => told.answer(position, content.as_deref()).await,
        Steering::Retry => told.retry().await,
    }
}

/// A run that is told something.
struct Told<'a> {
    run: &'a Run,
    runs: &'a dyn RunStore,
    control: &'a dyn RunControl,
    by: Caller,
    dry: bool,
}

impl Told<'_> {
    fn address(&self) -> String {
        format!("run:{}", self.run.id)
    }

    fn conflict(&self, message: String) -> Refusal {
        Refusal::new(RefusalKind::Conflict, self.address(), message)
            .next_step(format!("read {}/why says why it stands there", self.address()))
    }

    fn product(&self, done: &str, next: &str, value: Value) -> Product {
        let address = self.address();
        let text = if self.dry {
            format!("Nothing was done: this would be accepted. {done}\n")
        } else {
            format!("{done}\nNext: {next}\n")
        };
        let mut value = value;
        if let Some(map) = value.as_object_mut() {
            map.insert("run".to_owned(), json!(self.run.id));
            map.insert("dryRun".to_owned(), json!(self.dry));
        }
        Product::text(text, address).value(value)
    }

    async fn cancel(self, reason: String) -> Result<Product, Refusal> {
        let address = self.address();
        if self.run.status.is_settled() && !self.has_live_child().await? {
            return Err(self.conflict(format!(
                "{address} has ended ({}), and so has everything below it.",
                self.run.status.word()
            )));
        }
        let next = format!("read {address} shows when it has ended.");
        if self.dry {
            let done = format!("{address} and everything below it would be asked to end.");
            return Ok(self.product(&done, &next, json!({"cancel": true})));
        }
        let Canceling { canceled, canceling } =
            self.control.cancel(self.run.id, self.by.clone(), reason).await?;
        let done = match (canceled.len(), canceling.len()) {
            (_, 0) => format!("Ended {}.", named(&canceled)),
            (0, _) => format!(
                "Asked {} to end; each ends when what it does has ended.",
                named(&canceling)
            ),
            _ => format!(
                "Ended {}; asked {} to end, where each ends when what it does has ended.",
                named(&canceled),
                named(&canceling)
            ),
        };
        Ok(self.product(
            &done,
            &next,
            json!({"canceled": canceled, "canceling": canceling}),
        ))
    }

    /// Tells whether a child has not ended. What is further down keeps nothing alive that its parent does not.
    async fn has_live_child(&self) -> Result<bool, Refusal> {
        let mut open = vec![self.run.id];
        let mut looked = 0;
        while let Some(run) = open.pop() {
            let children = self
                .runs
                .children(run, 1_000)
                .await
                .map_err(|error| from_store(&self.address(), &error))?;
            if children.iter().any(|child| !child.status.is_settled()) {
                return Ok(true);
            }
            looked += 1;
            // Who looks at so many lets the journal decide.
            if looked >= 1_000 {
                return Ok(true);
            }
            open.extend(children.iter().map(|child| child.id));
        }
        Ok(false)
    }

    async fn signal(self, event: &str, value: Value) -> Result<Product, Refusal> {
        let address = self.address();
        let shown = show::line(event, 80);
        if self.run.status.is_settled() {
            let word = self.run.status.word();
            return Err(self.conflict(format!("{address} has ended ({word}) and takes no events.")));
        }
        let next = format!("read {address}/journal shows what it makes of it.");
        if self.dry {
            let done = format!("The event '{shown}' would be sent to {address}.");
            return Ok(self.product(&done, &next, json!({"signal": event})));
        }
        let delivery = self
            .control
            .signal(self.run.id, event, value, self.by.clone())
            .await?;
        let done = match delivery {
            Delivery::Delivered => format!("{address} was waiting for the event '{shown}' and has it."),
            Delivery::Kept => format!(
                "{address} does not wait for the event '{shown}' yet; it is kept until it does, or until it ends."
            ),
        };
        Ok(self.product(&done, &next, json!({"signal": event, "delivery": delivery})))
    }

    async fn answer(self, position: u32, content: Option<&str>) -> Result<Product, Refusal> {
        let address = self.address();
        let waits = self
            .runs
            .waits(self.run.id)
            .await
            .map_err(|error| from_store(&address, &error))?;
        let Some(wait) = waits.iter().find(|wait| wait.position == position) else {
            let open = waits
                .iter()
                .map(|wait| format!("{} ({})", wait.position, waits::short(&wait.what, wait.due)));
            let message = format!("{address} waits for nothing at #{position}.");
            return Err(self.conflict(message).supported(open));
        };
        let answer = self.answer_of(&wait.what, position, content)?;
        let what = waits::short(&wait.what, None);
        let next = format!("read {address} shows how it goes on.");
        let answered = json!({"answer": position, "for": wait.what});
        if self.dry {
            let done = format!("#{position} of {address} would be answered: {what}.");
            return Ok(self.product(&done, &next, answered));
        }
        self.control
            .answer(self.run.id, position, answer, self.by.clone())
            .await?;
        let done = format!("Answered #{position} of {address}: {what}.");
        Ok(self.product(&done, &next, answered))
    }

    /// Returns the answer to a wait, as the run takes it.
    fn answer_of(&self, what: &WaitFor, position: u32, content: Option<&str>) -> Result<Value, Refusal> {
        let refuse = |message: String, next: String| {
            let subject = format!("{} #{position}", self.address());
            Err(Refusal::new(RefusalKind::BadRequest, subject, message).next_step(next))
        };
        match what {
            WaitFor::Budget => budget(content),
            WaitFor::Event { .. } => {
                let value = content.map_or(Ok(Value::Null), value)?;
                Ok(json!({ "event": value }))
            }
            // Only the names are said here: values would stand in the journal.
            WaitFor::Env { names } => match content {
                None => Ok(json!(names)),
                Some(_) => refuse(
                    "Variables are not answered with content: values never go into the journal.".to_owned(),
                    "set them where pentad is run or with pentad secret set, then answer without content"
                        .to_owned(),
                ),
            },
            WaitFor::Timer => refuse(
                format!("#{position} waits for a moment, which comes by itself."),
                "wait, or cancel the run".to_owned(),
            ),
            WaitFor::Child { run } => refuse(
                format!("#{position} waits for the end of run:{run}, which is its own answer."),
                format!("read run:{run}/why shows where it stands; cancel it to end the wait"),
            ),
            WaitFor::Approval { approval } => refuse(
                format!("#{position} waits for a person's answer to approval:{approval}."),
                format!("pentad approvals grant {approval}, or deny it"),
            ),
        }
    }

    async fn retry(self) -> Result<Product, Refusal> {
        let address = self.address();
        if !self.run.status.is_settled() {
            return Err(self.conflict(format!(
                "{address} has not ended: it is {}. Cancel it first, or wait.",
                self.run.status.word()
            )));
        }
        if self.run.terms.program.is_empty() {
            let message = format!("{address} was a verb that somebody invoked; invoke it again.");
            return Err(Refusal::new(RefusalKind::Conflict, address, message));
        }
        if self.dry {
            let done = format!("{address} would be started again from its beginning, as a new run.");
            return Ok(self.product(&done, "", json!({"retry": true})));
        }
        let new = self.control.retry(self.run.id, self.by.clone()).await?;
        let done = format!("Started run:{new}, which does from its beginning what {address} did.");
        let next = format!("read run:{new} shows how far it is.");
        let mut product = self.product(&done, &next, json!({"retry": true, "newRun": new}));
        product.run = Some(new);
        Ok(product)
    }
}

/// Reads more budget.
fn budget(content: Option<&str>) -> Result<Value, Refusal> {
    let keys = ["wallSeconds", "tokens", "costUsd", "children", "depth"];
    let refuse = |message: &str| Refusal::new(RefusalKind::BadRequest, "content", message).supported(keys);
    let Some(content) = content else {
        return Err(refuse(
            "More budget is given as content, for example {\"tokens\":100000}.",
        ));
    };
    let Ok(Value::Object(given)) = serde_json::from_str(content) else {
        return Err(refuse(
            "A budget is a JSON object, for example {\"tokens\":100000}.",
        ));
    };
    let budget = Budget::parse(&given)?;
    if budget == Budget::default() {
        return Err(refuse("This budget has no limit in it."));
    }
    serde_json::to_value(&budget)
        .map_err(|error| Refusal::new(RefusalKind::Internal, "content", error.to_string()))
}

/// Names runs, and how many more there are.
fn named(runs: &[pentad_model::RunId]) -> String {
    let mut names: Vec<String> = runs.iter().take(NAMED).map(|run| format!("run:{run}")).collect();
    if runs.len() > NAMED {
        names.push(format!("{} more", runs.len() - NAMED));
    }
    names.join(", ")
}
