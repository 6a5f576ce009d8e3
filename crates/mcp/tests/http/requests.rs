//! What a server asks and says while a call of it runs.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pentad_mcp::{ConnectedServer, Elicitor, LogLine, LogStream, Origin, ServerLog};
use pentad_model::approval::Approval;
use pentad_model::{Form, FormAnswer};
use pentad_program::{Answer, Asker, Attendance, ToolCall, ToolSource as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::site::{Kind, Piece, Reply, Site, event};
use crate::support::{config, document, end, runtime, text, tool_call};

/// Fills every form in, and remembers it: as whoever is behind a call, and as the person for all others.
#[derive(Debug, Default)]
struct Filler {
    called: Mutex<Vec<Form>>,
    person: Mutex<Vec<(Form, usize)>>,
}

fn ada() -> FormAnswer {
    FormAnswer::Accepted(json!({"name": "Ada"}).as_object().cloned().unwrap())
}

#[async_trait]
impl Asker for Filler {
    async fn ask(&self, _approval: &Approval) -> Answer {
        Answer::Unanswered
    }

    async fn fill(&self, form: &Form) -> FormAnswer {
        self.called.lock().unwrap().push(form.clone());
        ada()
    }
}

#[async_trait]
impl Elicitor for Filler {
    async fn elicit(&self, form: &Form, callers: &[Origin]) -> FormAnswer {
        self.person.lock().unwrap().push((form.clone(), callers.len()));
        FormAnswer::Declined
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
    attended: bool,
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
            attended,
            log,
            _folder: folder,
        }
    }

    /// Returns a call of `act`, with the filler behind it where the server is attended.
    async fn call(&self, input: &str) -> ToolCall {
        let act = document(&self.server, "act").await;
        let mut call = tool_call(act, input);
        call.attendance = Attendance {
            asker: self.attended.then(|| Arc::clone(&self.filler) as _),
            ..Attendance::default()
        };
        call
    }

    /// Returns what of the journal's lines is about forms.
    fn told(&self) -> Vec<String> {
        let kept = self.log.0.lock().unwrap();
        let forms = kept.iter().filter(|(_, _, line)| line.stream == LogStream::Form);
        forms.map(|(_, _, line)| line.text.clone()).collect()
    }

    /// Calls `act`, in whose stream the server asks this; returns what it was answered.
    async fn answered(&self, method: &str, params: Value) -> Value {
        let call = self.call("x").await;
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
        let output = self.server.call(call).await.unwrap();
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
    let forms = asked.filler.called.lock().unwrap().clone();
    assert_eq!((forms.len(), forms[0].message.as_str()), (1, "Who?\\u{1b}[31m"));
    // Names are journaled, values are not.
    assert_eq!(
        asked.told(),
        [
            "the server asks for a form to be filled in: name",
            "the form was filled in: name"
        ]
    );
    let page = json!({"mode": "url", "message": "?", "url": "https://example.org", "elicitationId": "1"});
    let answer = asked.answered("elicitation/create", page).await;
    assert_eq!(answer["result"], json!({"action": "decline"}), "{answer}");
    let password = json!({"message": "?", "requestedSchema": {"type": "object",
        "properties": {"name": {"type": "string", "format": "password"}}}});
    let answer = asked.answered("elicitation/create", password).await;
    assert_eq!(answer["result"]["content"], json!({"name": "Ada"}), "{answer}");
    end(&asked.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_fit_and_a_form_that_nobody_can_be_shown_cancel_at_once() {
    let mut asked = Asked::start(Kind::Sessions, true).await;
    let number = json!({"message": "?", "requestedSchema": {"type": "object",
        "properties": {"name": {"type": "integer"}}}});
    let nested = json!({"message": "?", "requestedSchema": {"type": "object",
        "properties": {"name": {"type": "object"}}}});
    for form in [number, nested] {
        let answer = asked.answered("elicitation/create", form).await;
        assert_eq!(answer["result"], json!({"action": "cancel"}), "{answer}");
    }
    asked.attended = false;
    let answer = asked.answered("elicitation/create", form()).await;
    assert_eq!(answer["result"], json!({"action": "cancel"}), "{answer}");
    insta::assert_snapshot!(asked.told().join("\n"));
    assert!(asked.filler.person.lock().unwrap().is_empty());
    end(&asked.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_may_belong_to_several_calls_goes_to_a_person_and_to_no_client() {
    let asked = Asked::start(Kind::Sessions, true).await;
    let (first, second) = (asked.call("one").await, asked.call("two").await);
    let (told, both, answer) = (
        Arc::<Notify>::default(),
        Arc::<Notify>::default(),
        Arc::<Mutex<Value>>::default(),
    );
    let (heard, entered, kept) = (Arc::clone(&told), Arc::clone(&both), Arc::clone(&answer));
    asked.site.answer(move |seen| {
        if seen.body["id"] == "asked" {
            *kept.lock().unwrap() = seen.body.clone();
            heard.notify_waiters();
            heard.notify_one();
            return Some(Reply::status(202, ""));
        }
        (seen.call() == "tools/call").then(|| {
            let result = json!({"content": [{"type": "text", "text": "done"}]});
            let done = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
            let ask =
                json!({"jsonrpc": "2.0", "id": "asked", "method": "elicitation/create", "params": form()});
            if seen.body["params"]["arguments"].to_string().contains("one") {
                entered.notify_one();
                Reply::Stream(vec![Piece::Until(Arc::clone(&heard)), event(None, &done)])
            } else {
                Reply::Stream(vec![
                    event(None, &ask),
                    Piece::Until(Arc::clone(&heard)),
                    event(None, &done),
                ])
            }
        })
    });
    let one = asked.server.call(first);
    let two = async {
        both.notified().await;
        asked.server.call(second).await
    };
    let (one, two) = tokio::join!(one, two);
    assert_eq!((text(&one.unwrap()), text(&two.unwrap())), ("done", "done"));
    assert_eq!(answer.lock().unwrap()["result"], json!({"action": "decline"}));
    assert!(asked.filler.called.lock().unwrap().is_empty());
    let person = asked.filler.person.lock().unwrap().clone();
    assert_eq!((person.len(), person[0].1), (1, 2));
    // Both runs are told what came of it.
    assert_eq!(asked.told(), ["the form was declined"; 2]);
    end(&asked.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_that_a_call_requires_is_given_and_the_call_sent_again() {
    for attended in [true, false] {
        let asked = Asked::start(Kind::Modern, attended).await;
        let call = asked.call("x").await;
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
        let ended = asked.server.call(call).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_call_behind_which_nobody_can_be_asked_says_so_to_its_server() {
    let mut asked = Asked::start(Kind::Modern, true).await;
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    for attended in [true, false] {
        asked.attended = attended;
        let call = asked.call("x").await;
        asked.site.answer(|seen| {
            let params = &seen.body["params"];
            (seen.call() == "tools/call" && params["inputResponses"].is_null()).then(|| {
                let question = json!({"who": {"method": "elicitation/create", "params": form()}});
                Reply::result(
                    seen,
                    &json!({"resultType": "input_required", "inputRequests": question}),
                )
            })
        });
        asked.server.call(call).await.unwrap();
        let seen = asked.site.seen();
        let last = seen.iter().rfind(|seen| seen.call() == "tools/call").unwrap();
        let params = &last.body["params"];
        assert_eq!(
            params["_meta"][capabilities]["elicitation"].is_object(),
            attended,
            "{params}"
        );
        // A server that asks all the same is answered at once.
        let action = if attended { "accept" } else { "cancel" };
        assert_eq!(params["inputResponses"]["who"]["action"], action, "{params}");
    }
    end(&asked.server).await;
}
