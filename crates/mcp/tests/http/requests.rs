//! What a server asks and says while a call of it runs.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pentad_mcp::{ConnectedServer, ElicitationAnswer, ElicitationForm, Elicitor, LogLine, Origin, ServerLog};
use pentad_program::ToolSource as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::site::{Kind, Piece, Reply, Site, event};
use crate::support::{config, document, end, runtime, text, tool_call};

/// Fills every form in, and remembers it.
#[derive(Default)]
struct Filler(Mutex<Vec<ElicitationForm>>);

#[async_trait]
impl Elicitor for Filler {
    async fn elicit(&self, form: ElicitationForm) -> ElicitationAnswer {
        self.0.lock().unwrap().push(form);
        ElicitationAnswer::Accepted(json!({"name": "Ada"}).as_object().cloned().unwrap())
    }
}

#[derive(Default)]
struct Witness(Mutex<Vec<(String, Origin, LogLine)>>);

#[async_trait]
impl ServerLog for Witness {
    async fn keep(&self, server: &str, origin: &Origin, lines: Vec<LogLine>) {
        let mut kept = self.0.lock().unwrap();
        kept.extend(
            lines
                .into_iter()
                .map(|line| (server.to_owned(), origin.clone(), line)),
        );
    }
}

struct Asked {
    site: Site,
    server: ConnectedServer,
    filler: Arc<Filler>,
    log: Arc<Witness>,
    _folder: TempDir,
}

impl Asked {
    async fn start(kind: Kind, attended: bool) -> Self {
        let site = Site::start(kind).await;
        let folder = tempfile::tempdir().unwrap();
        let (filler, log) = (Arc::<Filler>::default(), Arc::<Witness>::default());
        let mut runtime = runtime(&folder);
        runtime.elicitor = attended.then(|| Arc::clone(&filler) as _);
        runtime.log = Some(Arc::clone(&log) as _);
        let server = ConnectedServer::new(config(&site, &[]), runtime).unwrap();
        Self {
            site,
            server,
            filler,
            log,
            _folder: folder,
        }
    }

    /// Calls `act`, in whose stream the server asks this; returns what it was answered.
    async fn answered(&self, method: &str, params: Value) -> Value {
        let act = document(&self.server, "act").await;
        let (told, answer) = (Arc::<Notify>::default(), Arc::<Mutex<Value>>::default());
        let (heard, kept, method) = (Arc::clone(&told), Arc::clone(&answer), method.to_owned());
        self.site.answer(move |seen| {
            if seen.body["id"] == "asked" {
                *kept.lock().unwrap() = seen.body.clone();
                heard.notify_one();
                return Some(Reply::status(202, ""));
            }
            (seen.call() == "tools/call").then(|| {
                let asked = json!({"jsonrpc": "2.0", "id": "asked", "method": method, "params": params});
                let result = json!({"content": [{"type": "text", "text": "done"}]});
                let done = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
                Reply::Stream(vec![
                    event(None, &asked),
                    Piece::Until(Arc::clone(&heard)),
                    event(None, &done),
                ])
            })
        });
        let output = self.server.call(tool_call(act, "x")).await.unwrap();
        assert_eq!(text(&output), "done");
        answer.lock().unwrap().clone()
    }
}

fn form() -> Value {
    json!({"mode": "form", "message": "Who?\u{1b}[31m", "requestedSchema": {"type": "object",
        "properties": {"name": {"type": "string"}}, "required": ["name"]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_learns_the_folder_of_the_call_and_gets_no_answers_of_a_model() {
    let asked = Asked::start(Kind::Sessions, false).await;
    let answer = asked.answered("roots/list", json!({})).await;
    assert_eq!(
        answer["result"],
        json!({"roots": [{"uri": "file:///tmp"}]}),
        "{answer}"
    );
    let sampling = json!({"messages": [], "maxTokens": 1});
    let answer = asked.answered("sampling/createMessage", sampling).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    let answer = asked.answered("elicitation/create", form()).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    let opened = asked
        .site
        .seen()
        .into_iter()
        .find(|seen| seen.call() == "initialize")
        .unwrap();
    assert_eq!(opened.body["params"]["capabilities"], json!({"roots": {}}));
    end(&asked.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_can_be_asked_is_asked() {
    let asked = Asked::start(Kind::Sessions, true).await;
    let answer = asked.answered("elicitation/create", form()).await;
    assert_eq!(
        answer["result"],
        json!({"action": "accept", "content": {"name": "Ada"}}),
        "{answer}"
    );
    let forms = asked.filler.0.lock().unwrap().clone();
    assert_eq!((forms.len(), forms[0].message.as_str()), (1, "Who?\\u{1b}[31m"));
    end(&asked.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_that_a_call_requires_is_given_and_the_call_sent_again() {
    for attended in [true, false] {
        let asked = Asked::start(Kind::Modern, attended).await;
        let act = document(&asked.server, "act").await;
        asked.site.answer(|seen| {
            let params = &seen.body["params"];
            (seen.call() == "tools/call" && params["inputResponses"].is_null()).then(|| {
                let question = json!({"who": {"method": "elicitation/create", "params": form()}});
                Reply::result(
                    seen,
                    &json!({"resultType": "input_required", "inputRequests": question, "requestState": "opaque"}),
                )
            })
        });
        let ended = asked.server.call(tool_call(act, "x")).await;
        match ended {
            Ok(output) => {
                assert!(attended);
                assert_eq!(text(&output), "act \"x\"");
                let last = asked
                    .site
                    .seen()
                    .into_iter()
                    .rfind(|seen| seen.call() == "tools/call")
                    .unwrap();
                let params = &last.body["params"];
                assert_eq!(params["requestState"], "opaque");
                assert_eq!(params["inputResponses"]["who"]["content"], json!({"name": "Ada"}));
            }
            Err(failure) => {
                assert!(!attended);
                insta::assert_snapshot!(failure.to_string());
                assert_eq!(asked.site.calls_of("act"), 1);
            }
        }
        end(&asked.server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_logs_belongs_to_the_run_whose_call_it_serves() {
    let asked = Asked::start(Kind::Sessions, false).await;
    let act = document(&asked.server, "act").await;
    asked.site.answer(|seen| {
        (seen.call() == "tools/call").then(|| {
            let line = |level: &str, data: Value| {
                let params = json!({"level": level, "logger": "disk", "data": data});
                event(
                    None,
                    &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}),
                )
            };
            let progress =
                json!({"progressToken": seen.body["params"]["_meta"]["progressToken"], "progress": 1});
            let result = json!({"content": [{"type": "text", "text": "done"}]});
            Reply::Stream(vec![
                line("warning", json!("nearly full\u{1b}[31m")),
                line("critical", json!({"free": 0})),
                event(
                    None,
                    &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}),
                ),
                event(
                    None,
                    &json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}),
                ),
            ])
        })
    });
    let call = tool_call(act, "x");
    let run = call.run;
    asked.server.call(call).await.unwrap();
    let kept = asked.log.0.lock().unwrap().clone();
    let lines: Vec<(&str, &str)> = kept
        .iter()
        .map(|(_, _, line)| (line.level, line.text.as_str()))
        .collect();
    assert_eq!(
        lines,
        [
            ("warning", "disk: nearly full\\u{1b}[31m"),
            ("error", "disk: {\"free\":0}")
        ]
    );
    assert!(
        kept.iter()
            .all(|(server, origin, _)| server == "site" && origin.run == run)
    );
    end(&asked.server).await;
}
