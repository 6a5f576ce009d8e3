use std::process::ExitCode;

use pentad_keeper::attach::Desk;
use pentad_model::{Actor, Event, IdEnding, ThreadId, Timestamp, Verb};
use pentad_program::ActivityFilter;

use crate::args::Globals;
use crate::failure::usage;
use crate::house::House;
use crate::invoke::block_on;
use crate::render::event;
use crate::terminal::Terminal;

/// Events that are read at once while following.
const PAGE: usize = 200;

const EXAMPLES: &str = "\
Examples:
  pentad log
  pentad log -f
  pentad log -n 100 --actor client:claude-code --verb call
  pentad log -f --json | jq 'select(.body.type == \"returned\")'";

/// Show what happened, newest last
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Go on as things happen
    #[arg(short, long)]
    pub follow: bool,
    /// How many of the newest events to begin with
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub number: usize,
    /// Only of this actor: user, system, client:NAME, agent:NAME or trigger:NAME
    #[arg(long)]
    pub actor: Option<Actor>,
    /// Only this verb
    #[arg(long, value_parser = verb)]
    pub verb: Option<Verb>,
    /// Not before this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    pub since: Option<Timestamp>,
    /// Before this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse, conflicts_with = "follow")]
    pub until: Option<Timestamp>,
}

fn verb(text: &str) -> Result<Verb, String> {
    text.parse()
        .map_err(|refusal: pentad_model::Refusal| refusal.to_text())
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        block_on(async {
            let house = House::open(globals).await?;
            let shown = self.show(&*house.desk, globals.thread.as_deref(), terminal);
            let result = tokio::select! {
                result = shown => result,
                _ = tokio::signal::ctrl_c() => Ok(()),
            };
            house.close().await;
            result.map(|()| ExitCode::SUCCESS)
        })?
    }

    async fn show(&self, desk: &dyn Desk, thread: Option<&str>, terminal: &Terminal) -> anyhow::Result<()> {
        let thread = match thread {
            None => None,
            Some(text) => {
                let ending: IdEnding = text
                    .strip_prefix("thread:")
                    .unwrap_or(text)
                    .parse()
                    .map_err(|e| usage(format!("--thread: {e}")))?;
                Some(desk.find_thread(&ending).await?)
            }
        };
        // The head is read first: what happens meanwhile is then shown once, by the one or the other.
        let head = desk.head().await?;
        let filter = ActivityFilter {
            actor: self.actor.clone(),
            verb: self.verb,
            thread,
            since: self.since,
            until: self.until,
            before: self.follow.then_some(head.saturating_add(1)),
            limit: self.number,
        };
        let mut newest = if self.number == 0 {
            Vec::new()
        } else {
            desk.activity(filter).await?
        };
        newest.reverse();
        for event in &newest {
            if !terminal.stream(&event::line(event, terminal)) {
                return Ok(());
            }
        }
        if self.follow {
            self.follow(desk, thread, head, terminal).await?;
        }
        Ok(())
    }

    /// Follows until the reader goes away or the journal closes.
    async fn follow(
        &self,
        desk: &dyn Desk,
        thread: Option<ThreadId>,
        mut position: u64,
        terminal: &Terminal,
    ) -> anyhow::Result<()> {
        loop {
            let events = desk.follow(position, PAGE).await?;
            if events.is_empty() {
                return Ok(());
            }
            for event in &events {
                position = position.max(event.position);
                if self.wants(event, thread) && !terminal.stream(&event::line(event, terminal)) {
                    return Ok(());
                }
            }
        }
    }

    fn wants(&self, event: &Event, thread: Option<ThreadId>) -> bool {
        let verb = match (&event.body, self.verb) {
            (_, None) => true,
            (pentad_model::EventBody::Called { verb, .. }, Some(wanted)) => *verb == wanted,
            _ => false,
        };
        verb && thread.is_none_or(|thread| thread == event.thread)
            && self
                .actor
                .as_ref()
                .is_none_or(|actor| *actor == event.caller.actor)
            && self.since.is_none_or(|since| event.at >= since)
    }
}
