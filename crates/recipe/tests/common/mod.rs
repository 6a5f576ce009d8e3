//! What several tests of recipes share.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pentad_model::invocation::Workspace;
use pentad_model::{Actor, GrantSet, Refusal, RunId, ThreadId, ToolDocument};
use pentad_program::{Attendance, ToolCall};
use pentad_recipe::{Job, Launchers, Opened};
use pentad_template::{LaunchRequest, Launched, Launcher, Stream};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Answers every command with its own words and remembers them.
#[derive(Default)]
pub struct Echo {
    pub seen: Mutex<Vec<Vec<String>>>,
}

#[async_trait]
impl Launcher for Echo {
    async fn launch(&self, request: LaunchRequest, _: &CancellationToken) -> Launched {
        let text = request.argv.join(" ");
        self.seen.lock().unwrap().push(request.argv);
        Launched {
            stdout: Stream::complete(text),
            ..Launched::default()
        }
    }
}

/// Gives every call the same launcher.
pub struct Echoes(pub Arc<Echo>);

impl Launchers for Echoes {
    fn open(&self, _: &Job) -> Result<Opened, Refusal> {
        let launcher: Arc<dyn Launcher> = Arc::clone(&self.0) as Arc<dyn Launcher>;
        Ok(Opened {
            launcher,
            path: String::new(),
            home: Some("/home/anna".into()),
        })
    }
}

pub fn echoes() -> (Arc<Echo>, Arc<dyn Launchers>) {
    let echo = Arc::<Echo>::default();
    (Arc::clone(&echo), Arc::new(Echoes(echo)))
}

pub fn call(document: &Arc<ToolDocument>, input: Value, dir: &Path) -> ToolCall {
    ToolCall {
        document: Arc::clone(document),
        input: input.as_object().unwrap().clone(),
        run: RunId::generate(),
        thread: ThreadId::generate(),
        agent: "main".parse().unwrap(),
        visible: GrantSet::default(),
        caller: Actor::User.into(),
        workspace: Workspace {
            cwd: dir.to_owned(),
            project_root: None,
            trusted: false,
        },
        run_dir: dir.to_owned(),
        time_limit: None,
        attendance: Attendance::default(),
    }
}
