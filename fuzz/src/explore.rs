//! The requests that `pervade explore` answers.

use std::cell::RefCell;

use pervade::Cpu;
use pervade_cli::fuzzing::Explorer;

use super::fixtures::Fitted;
use super::scratch;

/// The token of its requests.
pub const TOKEN: &str = "fuzz";
/// What can be asked.
pub const QUESTIONS: [&str; 6] = ["compare", "filter", "names", "row", "search", "walk"];

thread_local! {
    static EXPLORERS: RefCell<[Explorer<'static>; 2]> = RefCell::new(
        [(Fitted::typed(), "typed"), (Fitted::pictures(), "pictures")].map(|(fitted, name)| {
            let names = scratch("explore").join(format!("{name}.names.json"));
            let cpu: &'static Cpu = Box::leak(Box::new(Cpu::new()));
            Explorer::new(&fitted.model, &fitted.table, cpu, &names, TOKEN).unwrap()
        }),
    );
}

/// All bytes of a connection.
pub fn connect(bytes: &[u8]) {
    let received = received(bytes);
    assert!(received.is_empty() || received.starts_with(b"HTTP/1."), "{}", received.escape_ascii());
    let has_token = bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes());
    let is_answered = received.windows(7).any(|window| window == b" 200 OK");
    assert!(has_token || !is_answered, "who does not have the token gets no answer");
}

/// What the server sends to who sends these bytes.
pub fn received(bytes: &[u8]) -> Vec<u8> {
    EXPLORERS.with_borrow_mut(|explorers| explorers[0].connect(bytes).unwrap())
}

/// The body of a question; the first byte selects the question, and the model: of a table or of pictures.
pub fn ask(bytes: &[u8]) {
    let Some((&first, body)) = bytes.split_first() else { return };
    EXPLORERS.with_borrow_mut(|explorers| {
        let path = format!("/api/{}", QUESTIONS[usize::from(first & 0x7f) % QUESTIONS.len()]);
        match explorers[usize::from(first >> 7)].ask(&path, body).unwrap().unwrap() {
            Ok(json) => drop(serde_json::from_slice::<serde_json::Value>(&json).unwrap()),
            Err((status, message)) => {
                // Whatever is asked, the table and the model are sound.
                assert!((400..500).contains(&status), "{status}: {message}");
            }
        }
    });
}
