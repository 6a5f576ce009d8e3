//! A launcher that answers from a script and writes down what it was asked.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use pentad_template::{Clock, Input, LaunchRequest, Launched, Launcher, Stream};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Log {
    used: HashMap<String, usize>,
    calls: Vec<Value>,
    running: usize,
    peak: usize,
}

pub struct Scripted {
    script: Map<String, Value>,
    log: Mutex<Log>,
}

impl Scripted {
    pub fn new(script: Map<String, Value>) -> Self {
        Self {
            script,
            log: Mutex::default(),
        }
    }

    pub fn calls(&self) -> Vec<Value> {
        self.log.lock().unwrap().calls.clone()
    }

    pub fn peak(&self) -> usize {
        self.log.lock().unwrap().peak
    }

    fn begin(&self, request: &LaunchRequest) -> Value {
        let mut log = self.log.lock().unwrap();
        let command = request.argv[0].clone();
        let stdin = match &request.stdin {
            Input::None => Value::Null,
            Input::Bytes(bytes) => json!(String::from_utf8_lossy(bytes)),
        };
        let mut call = json!({"command": command, "args": request.argv[1..], "stdin": stdin});
        if let Some(timeout) = request.timeout {
            call["timeout"] = json!(timeout.as_millis());
        }
        log.calls.push(call);
        log.running += 1;
        log.peak = log.peak.max(log.running);
        let turn = log.used.entry(command.clone()).or_default();
        let entries = self.script.get(&command).and_then(Value::as_array);
        let entry = entries
            .and_then(|entries| entries.get(*turn).or_else(|| entries.last()))
            .cloned();
        *turn += 1;
        entry.unwrap_or_else(|| json!({"stdout": request.argv.join(" ")}))
    }
}

#[async_trait]
impl Launcher for Scripted {
    async fn launch(&self, request: LaunchRequest, _: &CancellationToken) -> Launched {
        let entry = self.begin(&request);
        tokio::task::yield_now().await;
        self.log.lock().unwrap().running -= 1;
        let stream = |name: &str| Stream::complete(entry[name].as_str().unwrap_or_default());
        let code = i32::try_from(entry["code"].as_i64().unwrap_or(0)).unwrap();
        Launched {
            code,
            stdout: stream("stdout"),
            stderr: stream("stderr"),
            ..Launched::default()
        }
    }
}

/// Is a clock that stands still: waiting takes no time.
pub struct StillClock;

#[async_trait]
impl Clock for StillClock {
    fn now(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn sleep(&self, _: Duration) {}
}
