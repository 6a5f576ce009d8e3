use futures::FutureExt as _;
use pentad_model::{Actor, RunId, ThreadId};
use serde_json::{Map, Value, json};

use super::*;

#[derive(Default)]
struct Kept(Mutex<Vec<String>>);

#[async_trait]
impl ServerLog for Kept {
    async fn keep(&self, server: &str, _origin: &Origin, lines: Vec<LogLine>) {
        let lines = lines.into_iter().map(|line| format!("{server}: {}", line.text));
        self.0.lock().unwrap().extend(lines);
    }
}

fn values(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn form() -> Form {
    let schema = json!({"properties": {"code": {"type": "string", "minLength": 2}}, "required": ["code"]});
    Form::new("crm", "Which code?", &schema).unwrap()
}

fn caller() -> Origin {
    Origin {
        run: RunId::generate(),
        thread: ThreadId::generate(),
        caller: Actor::User.into(),
    }
}

#[tokio::test]
async fn a_form_waits_until_values_come_that_fit_it() {
    let kept = Arc::<Kept>::default();
    let forms = OpenForms::new(Arc::clone(&kept) as _);
    let (form, callers) = (form(), [caller(), caller()]);
    let mut asking = forms.elicit(&form, &callers);
    assert!(asking.as_mut().now_or_never().is_none());
    let open = forms.all().pop().unwrap();
    assert_eq!(open.runs, callers.iter().map(|c| c.run).collect::<Vec<_>>());
    let id: IdEnding = open.id.to_string().parse().unwrap();

    let other: IdEnding = FormId::generate().to_string().parse().unwrap();
    let refusal = forms.answer(&other, FormAnswer::Declined).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotFound);
    for wrong in [json!({}), json!({"code": "x"}), json!({"code": "xyz", "more": 1})] {
        let refusal = forms
            .answer(&id, FormAnswer::Accepted(values(&wrong)))
            .unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Invalid, "{refusal}");
    }
    let right = FormAnswer::Accepted(values(&json!({"code": "canary"})));
    assert_eq!(forms.answer(&id, right.clone()).unwrap(), open);
    assert_eq!(asking.await, right);
    assert!(forms.all().is_empty());
    let told = kept.0.lock().unwrap().clone();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains(&open.id.to_string()) && !told.concat().contains("canary"));
}

#[tokio::test]
async fn a_form_that_nobody_waits_for_is_gone_and_too_many_are_answered_at_once() {
    let forms = OpenForms::new(Arc::<Kept>::default());
    let form = form();
    let mut waiting: Vec<_> = (0..MAX_OPEN).map(|_| forms.elicit(&form, &[])).collect();
    for asking in &mut waiting {
        assert!(asking.as_mut().now_or_never().is_none());
    }
    let more = forms.elicit(&form, &[]).now_or_never().unwrap();
    assert!(matches!(more, FormAnswer::Unanswered { .. }), "{more:?}");
    waiting.clear();
    assert!(forms.all().is_empty());
}
