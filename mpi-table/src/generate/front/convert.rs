//! Conversion of one function's arguments and outputs.
//!
//! Names in the generated text, for a parameter `x`: `x` is what the application passed, `x_` what
//! is passed on (an object, or a pointer into scratch), `x_scratch`, `x_word`, `x_words` hold it.

use crate::generate::lower_type::identifier;
use crate::{Class, Direction, Function, Kind, Length, Param};

/// The parts of a wrapper's body, in the order in which they stand there.
#[derive(Default)]
pub struct Body {
    /// From single handles to objects.
    pub objects: Vec<String>,
    /// From all else to objects and standard values; lengths may need the objects.
    pub decode: Vec<String>,
    /// From objects to those that a closure keeps (persistent collectives only).
    pub kept: Vec<String>,
    /// From objects to the lower half's words (crossings only).
    pub words: Vec<String>,
    /// Whether `words` make a box of words that the operation needs until it is complete.
    pub boxes_words: bool,
    /// The arguments of the call.
    pub args: Vec<String>,
    /// The expression that makes the request of an operation that was started below, stores it and
    /// gives an error code; empty when there is none.
    pub request: String,
    /// Outputs whatever the call returned.
    pub always: Vec<String>,
    /// Outputs after success only.
    pub success: Vec<String>,
}

impl Body {
    /// For a call of the core: handles are objects.
    pub fn for_core(function: &Function) -> Body {
        Body::new(function, false)
    }

    /// For a crossing: handles are words.
    pub fn for_crossing(function: &Function) -> Body {
        Body::new(function, true)
    }

    /// For the closure of a persistent collective, which crosses: handles are words there.
    pub fn for_persistent(function: &Function) -> Body {
        let mut body = Body::new(function, true);
        let kept = |param: &&Param| {
            matches!(param.kind, Kind::Datatype | Kind::Op) && param.array.is_none()
        };
        for param in function.params.iter().filter(kept) {
            let name = identifier(param);
            body.kept
                .push(format!("let {name}_ = upper_half::Kept::new({name}_);"));
        }
        body
    }

    fn new(function: &Function, crossing: bool) -> Body {
        let mut body = Body::default();
        let folded = function.folded().unwrap_or_default();
        for param in &function.params {
            match folded.iter().find(|(count, _)| *count == param) {
                Some((count, datatype)) => body.folded(function, count, datatype),
                None => body.param(function, param, crossing),
            }
        }
        body
    }

    /// A count and its datatype, of which the ordinary form gets what they fold into.
    fn folded(&mut self, function: &Function, count: &Param, datatype: &Param) {
        let (count, datatype) = (identifier(count), identifier(datatype));
        let failure = super::failure(function, "code");
        self.decode.push(format!(
            "let {count}_fold = match upper_half::fold({count}, {datatype}_) {{ \
             Ok(fold) => fold, Err(code) => return {failure} }};"
        ));
        self.decode
            .push(format!("let {datatype}_ = {count}_fold.datatype();"));
        self.args.push(format!("{count}_fold.count()"));
    }

    fn param(&mut self, function: &Function, param: &Param, crossing: bool) {
        let name = identifier(param);
        match param.kind {
            kind if kind.is_handle() && crossing => self.word(function, param, &name),
            kind if kind.is_handle() => self.object(param, &name),
            Kind::Status => self.status(function, param, &name),
            Kind::SendBuffer | Kind::RecvBuffer => {
                self.args.push(format!("abi::buffer({name} as _) as _"));
            }
            Kind::Weights => self.args.push(format!("abi::weights({name} as _) as _")),
            Kind::Callback => self.args.push(format!("core::mem::transmute({name})")),
            kind => match translation(function, param) {
                Some((into, out)) if param.array != Some(Length::Opaque) => {
                    self.translated(function, param, &name, into, out);
                }
                Some(_) => self.args.push(format!(
                    "compile_error!(\"{}: {kind:?} array of unknown length\")",
                    function.name
                )),
                // Windows below count in bytes.
                None if crossing && function.class == Class::Window && param.kind == Kind::Aint => {
                    let win = super::input(function, Kind::Win).unwrap_or_default();
                    let rank = target_rank(function);
                    self.args
                        .push(format!("{win}_.body.in_bytes({name} as _, {rank})"));
                }
                None => self.args.push(format!("{name} as _")),
            },
        }
    }

    /// A handle on its way to the core.
    fn object(&mut self, param: &Param, name: &str) {
        let (decode, object) = (decoder(param.kind), type_name(param.kind));
        match (&param.array, param.direction) {
            (None, Direction::In) => {
                self.objects
                    .push(format!("let {name}_ = abi::{decode}({name});"));
                self.args.push(format!("{name}_"));
            }
            (None, Direction::Out) => {
                self.decode.push(format!(
                    "let mut {name}_: &'static {object} = {object}::null();"
                ));
                self.args.push(format!("&raw mut {name}_"));
                self.always
                    .push(format!("*{name} = abi::{decode}_out({name}_);"));
            }
            (None, Direction::InOut) => {
                self.decode.push(format!(
                    "let {name}_given: &'static {object} = abi::{decode}(*{name});"
                ));
                self.decode.push(format!("let mut {name}_ = {name}_given;"));
                self.args.push(format!("&raw mut {name}_"));
                // What names no object here is as null inside: it stays as it is where the call fails.
                self.always.push(format!(
                    "if !core::ptr::eq({name}_, {name}_given) \
                     {{ *{name} = abi::{decode}_out({name}_); }}"
                ));
            }
            (Some(length), direction) => {
                let entries = entries(length);
                let initial = match direction {
                    Direction::Out => format!("|_| {object}::null()"),
                    _ => format!("|entry| abi::{decode}(*{name}.add(entry))"),
                };
                self.decode.push(format!("let {name}_len = {entries};"));
                self.scratch(
                    name,
                    &format!("&'static {object}"),
                    &format!("{name}_len"),
                    &initial,
                );
                self.args.push(format!("{name}_ as _"));
                match direction {
                    Direction::In => {}
                    // There may be fewer than there is room for; the rest stays as it is.
                    Direction::Out => self.success.push(format!(
                        "for entry in 0..{name}_len {{ let object = *{name}_.add(entry); \
                         if !object.is_null() {{ \
                         *{name}.add(entry) = abi::{decode}_out(object); }} }}"
                    )),
                    Direction::InOut => self.always.push(format!(
                        "for entry in 0..{name}_len {{ \
                         *{name}.add(entry) = abi::{decode}_out(*{name}_.add(entry)); }}"
                    )),
                }
            }
        }
    }

    fn scratch(&mut self, name: &str, entry: &str, len: &str, initial: &str) {
        self.decode.push(format!(
            "let mut {name}_scratch = Scratch::<{entry}>::new();"
        ));
        self.decode.push(format!(
            "let {name}_ = {name}_scratch.fill({len}, {initial});"
        ));
    }

    /// A handle on its way down.
    fn word(&mut self, function: &Function, param: &Param, name: &str) {
        let decode = decoder(param.kind);
        match (param.kind, &param.array, param.direction) {
            // Hints for an operation of which the library below knows nothing.
            (Kind::Info, ..) if function.class == Class::CollectivePersistent => {}
            (Kind::Request, ..) if function.class == Class::CollectivePersistent => {
                self.args.push(format!("{name}_word"));
            }
            // Info objects and groups live in the upper half alone; the lower half gets a copy.
            (Kind::Info, None, Direction::In) => {
                self.objects
                    .push(format!("let {name}_ = abi::{decode}({name});"));
                self.words.push(format!(
                    "let {name}_word = upper_half::crossing_info({name}_);"
                ));
                self.args.push(format!("{name}_word.word()"));
            }
            (Kind::Group, None, Direction::In) => {
                self.objects
                    .push(format!("let {name}_ = abi::{decode}({name});"));
                self.words.push(format!(
                    "let {name}_group = match common::LowerGroup::of({name}_) {{ \
                     Ok(group) => group, Err(code) => return {} }};",
                    super::failure(function, "code")
                ));
                self.args.push(format!("{name}_group.word()"));
            }
            (_, None, Direction::In) => {
                self.objects
                    .push(format!("let {name}_ = abi::{decode}({name});"));
                self.args.push(format!("{name}_.lower()"));
            }
            (Kind::Request, None, Direction::Out) => self.request_word(function, name),
            (_, Some(length), Direction::In) => self.words_array(function, param, name, length),
            _ => self.args.push(format!(
                "compile_error!(\"{}: no rule for {name} in a crossing\")",
                function.name
            )),
        }
    }

    fn request_word(&mut self, function: &Function, name: &str) {
        self.words.push(format!("let mut {name}_word = 0usize;"));
        self.args.push(format!("&raw mut {name}_word"));
        let make = match function.class {
            Class::Window => {
                let win = super::input(function, Kind::Win).unwrap_or_default();
                let (asked, module) = super::here(function);
                // What is done alone is complete; else there may be more under way at that rank.
                let args = match function.accumulates() {
                    true => format!("{}, {win}_", target_rank(function)),
                    false => String::new(),
                };
                format!(
                    "match {win}_.body.{asked}() {{ \
                     true => upper_half::{module}::request({args}), \
                     false => upper_half::access_request({name}_word, None) }}"
                )
            }
            Class::File => format!("upper_half::file_request({name}_word)"),
            Class::FileCollectiveNonblocking => {
                format!("upper_half::file_collective_request(clock, {name}_word)")
            }
            _ if boxed_arrays(function).next().is_some() => {
                format!("upper_half::collective_request(clock, {name}_word, Some(words))")
            }
            _ => format!("upper_half::collective_request(clock, {name}_word, None)"),
        };
        self.request = format!(
            "match {make} {{ Ok(object) => {{ *{name} = abi::request_out(object); \
             contract::abi::SUCCESS }} Err(code) => code }}"
        );
    }

    /// An array of handles in a crossing. Those of a collective that outlives the call lie in one box
    /// that the request owns.
    fn words_array(&mut self, function: &Function, param: &Param, name: &str, length: &Length) {
        let decode = decoder(param.kind);
        let entries = significant(function, name, &entries(length));
        self.decode.push(format!("let {name}_len = {entries};"));
        let outlives_the_call = matches!(
            function.class,
            Class::CollectiveNonblocking | Class::CollectivePersistent
        );
        if !outlives_the_call {
            self.words
                .push(format!("let mut {name}_scratch = Scratch::<usize>::new();"));
            self.words.push(format!(
                "let {name}_ = {name}_scratch.fill({name}_len, \
                 |entry| abi::{decode}(*{name}.add(entry)).lower());"
            ));
            self.args.push(format!("{name}_ as _"));
            return;
        }
        let object = |param: &Param| {
            let (name, decode) = (identifier(param), decoder(param.kind));
            format!("abi::{decode}(*{name}.add(entry))")
        };
        if function.class == Class::CollectivePersistent {
            self.kept.push(format!(
                "let {name}_: Box<[_]> = (0..{name}_len).map(|entry| \
                 upper_half::Kept::new({})).collect();",
                object(param)
            ));
        }
        let before: Vec<String> = boxed_arrays(function)
            .take_while(|other| identifier(other) != name)
            .map(|other| format!("{}_len", identifier(other)))
            .collect();
        if before.len() + 1 == boxed_arrays(function).count() {
            // The last array makes the box; all lengths are known by then.
            let fill = boxed_arrays(function).map(|other| {
                let name = identifier(other);
                match function.class {
                    Class::CollectivePersistent => {
                        format!(".chain({name}_.iter().map(|kept| kept.lower()))")
                    }
                    _ => format!(
                        ".chain((0..{name}_len).map(|entry| {}.lower()))",
                        object(other)
                    ),
                }
            });
            self.words.push(format!(
                "let mut words: Box<[usize]> = core::iter::empty(){}.collect();",
                fill.collect::<String>()
            ));
            self.boxes_words = true;
        }
        let offset = match before.is_empty() {
            true => "0".to_owned(),
            false => before.join(" + "),
        };
        self.args
            .push(format!("words.as_mut_ptr().add({offset}) as _"));
    }

    fn status(&mut self, function: &Function, param: &Param, name: &str) {
        let Some(length) = &param.array else {
            return self.single_status(function, param, name);
        };
        let (capacity, written) = match length {
            Length::Param(count) if is_output(function, count) => (
                format!("common::entries({})", requests_count(function)),
                format!("common::entries(*{count}).min({name}_len)"),
            ),
            length => (entries(length), format!("{name}_len")),
        };
        self.decode.push(format!("let {name}_len = {capacity};"));
        self.decode.push(format!(
            "let mut {name}_scratch = Scratch::<Status>::new();"
        ));
        self.decode.push(format!(
            "let {name}_ = if abi::ignored({name}) {{ core::ptr::null_mut() }} \
             else {{ {name}_scratch.fill({name}_len, |_| Status::EMPTY) }};"
        ));
        self.args.push(format!("{name}_ as _"));
        let filled = completed(function)
            .map(|flag| format!(" && *{flag} != 0"))
            .unwrap_or_default();
        self.always.push(format!(
            "if !{name}_.is_null() && (code == contract::abi::SUCCESS{filled} \
             || code == contract::abi::ERR_IN_STATUS) {{ for entry in 0..{written} {{ \
             abi::status_out(&*{name}_.add(entry), {name}.add(entry)); }} }}"
        ));
    }

    fn single_status(&mut self, function: &Function, param: &Param, name: &str) {
        if param.direction != Direction::Out {
            self.decode
                .push(format!("let mut {name}_ = abi::status_in(&*{name});"));
            self.args.push(format!("&raw mut {name}_"));
            if param.direction == Direction::InOut {
                self.success
                    .push(format!("abi::status_out(&{name}_, {name});"));
            }
            return;
        }
        self.decode
            .push(format!("let mut {name}_status = Status::EMPTY;"));
        self.decode.push(format!(
            "let {name}_ = if abi::ignored({name}) {{ core::ptr::null_mut() }} \
             else {{ &raw mut {name}_status }};"
        ));
        self.args.push(format!("{name}_"));
        let filled = completed(function)
            .map(|flag| format!(" && (code != contract::abi::SUCCESS || *{flag} != 0)"))
            .unwrap_or_default();
        self.always.push(format!(
            "if !{name}_.is_null(){filled} {{ common::single_status(&{name}_status, \
             &raw mut (*{name}).error, || abi::status_out(&{name}_status, {name})); }}"
        ));
    }

    /// An integer with special values.
    fn translated(
        &mut self,
        function: &Function,
        param: &Param,
        name: &str,
        into: Option<&str>,
        out: Option<&str>,
    ) {
        let missing = || {
            format!(
                "compile_error!(\"{}: {name} goes the wrong way\")",
                function.name
            )
        };
        let into = into.map(|f| format!("abi::{f}")).unwrap_or_else(missing);
        let out = out.map(|f| format!("abi::{f}")).unwrap_or_else(missing);
        match (&param.array, param.direction) {
            (None, Direction::In) => self.args.push(format!("{into}({name}) as _")),
            (None, Direction::Out) => {
                self.args.push(format!("{name} as _"));
                self.success.push(format!("*{name} = {out}(*{name});"));
            }
            (None, Direction::InOut) => {
                self.decode
                    .push(format!("let mut {name}_ = {into}(*{name});"));
                self.args.push(format!("&raw mut {name}_"));
                self.always.push(format!(
                    "if {name}_ != {into}(*{name}) {{ *{name} = {out}({name}_); }}"
                ));
            }
            (Some(length), Direction::In) => {
                let initial = format!("|entry| {into}(*{name}.add(entry))");
                self.scratch(name, "i32", &entries(length), &initial);
                self.args.push(format!("{name}_ as _"));
            }
            (Some(length), _) => {
                self.args.push(format!("{name} as _"));
                self.success.push(format!(
                    "common::map_in_place({name}, {}, {out});",
                    entries(length)
                ));
            }
        }
    }
}

/// Name of the type of a handle, in the `abi` module and in the upper half.
pub fn type_name(kind: Kind) -> String {
    format!("{kind:?}")
}

/// Name of the function that decodes a handle; `_out` is appended for the reverse.
pub fn decoder(kind: Kind) -> String {
    type_name(kind).to_ascii_lowercase()
}

/// The rank that a function's window is accessed at, as a standard value.
fn target_rank(function: &Function) -> String {
    let rank = super::input(function, Kind::Rank).unwrap_or_default();
    format!("abi::rank_in({rank})")
}

/// The functions that translate an integer kind in and out, where there is anything to translate.
fn translation(
    function: &Function,
    param: &Param,
) -> Option<(Option<&'static str>, Option<&'static str>)> {
    Some(match param.kind {
        Kind::Rank => (Some("rank_in"), Some("rank_out")),
        Kind::Tag => (Some("tag_in"), Some("tag_out")),
        Kind::Keyval => (Some("keyval_in"), Some("keyval_out")),
        Kind::ErrorCode => (Some("error_in"), Some("error_out")),
        Kind::ThreadLevel => (Some("thread_level_in"), Some("thread_level_out")),
        Kind::Comparison => (None, Some("comparison_out")),
        Kind::TopologyType => (None, Some("topology_out")),
        Kind::SplitType => (Some("split_type_in"), None),
        Kind::Order => (Some("order_in"), None),
        Kind::Distribution => (Some("distribution_in"), None),
        Kind::DistributionArg => (Some("distribution_arg_in"), None),
        Kind::Combiner => (None, Some("combiner_out")),
        Kind::TypeClass => (Some("type_class_in"), None),
        Kind::LockType => (Some("lock_type_in"), None),
        Kind::WindowAssert => (Some("window_assert_in"), None),
        Kind::AccessMode => (Some("access_mode_in"), Some("access_mode_out")),
        Kind::Whence => (Some("whence_in"), None),
        // The one offset that may be MPI_DISPLACEMENT_CURRENT.
        Kind::Offset if function.name == "MPI_File_set_view" => (Some("displacement_in"), None),
        _ => return None,
    })
}

/// The expression that tells how many entries an array has.
pub fn entries(length: &Length) -> String {
    match length {
        Length::Param(count) => format!("common::entries({count})"),
        Length::CommSize(comm) => format!("common::collective_size({comm}_)"),
        Length::Neighbours(comm, incoming) => format!("common::neighbours({comm}_, {incoming})"),
        Length::Bytes(bytes) => bytes.to_string(),
        Length::Opaque => "compile_error!(\"array of unknown length\")".to_owned(),
    }
}

/// The number of entries of a datatype array that count: a send side that is MPI_IN_PLACE has none.
fn significant(function: &Function, name: &str, entries: &str) -> String {
    match function.param("sendbuf") {
        Some(_) if name.starts_with("send") => format!(
            "if abi::buffer(sendbuf as _) as usize == contract::abi::IN_PLACE {{ 0 }} \
             else {{ {entries} }}"
        ),
        _ => entries.to_owned(),
    }
}

fn boxed_arrays(function: &Function) -> impl Iterator<Item = &Param> {
    function
        .params
        .iter()
        .filter(|p| p.kind.is_handle() && p.array.is_some())
}

fn is_output(function: &Function, name: &str) -> bool {
    function
        .param(name)
        .is_some_and(|param| param.direction != Direction::In)
}

/// The parameter that counts the requests of MPI_Waitsome and the like.
fn requests_count(function: &Function) -> &str {
    function
        .params
        .iter()
        .find_map(|param| match (&param.array, param.kind) {
            (Some(Length::Param(count)), Kind::Request) => Some(count.as_str()),
            _ => None,
        })
        .unwrap_or("compile_error!(\"statuses without requests\")")
}

/// The output that tells whether a test completed anything.
fn completed(function: &Function) -> Option<&str> {
    function
        .params
        .iter()
        .find(|param| param.kind == Kind::Flag && param.direction == Direction::Out)
        .map(|param| param.name.as_str())
}
