//! The generated text of a few functions.

use super::front_of;
use crate::parse;

fn generate(table: &str) -> String {
    front_of(&parse(table, 32).expect("a valid table"), 1)
}

/// Asserts that `text` contains `parts` in that order.
#[track_caller]
pub fn holds_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => panic!("`{part}` is missing, or is too early, in\n{text}"),
        }
    }
}

#[test]
fn core_call_with_outputs() {
    let text = generate(
        "[receive core]\nMPI_Irecv(recvbuf buf, int count, datatype datatype, rank source, \
         tag tag, comm comm, out request request)\n",
    );
    holds_in_order(
        &text,
        &[
            "fn PMPI_Irecv(buf: *mut c_void",
            "request: *mut abi::Request) -> i32 {",
            "CallGuard::enter_of(32)",
            "let comm_ = abi::comm(comm);",
            "upper_half::irecv(pass(App(abi::buffer(buf as _))), count as _, datatype_, \
             abi::rank_in(source) as _, abi::tag_in(tag) as _, comm_, pass(Local(&raw mut request_)))",
            "*request = abi::request_out(request_);",
            "return failed_comm(comm_, code, \"MPI_Irecv\");",
            "fn MPI_Irecv(",
            "sym PMPI_Irecv)",
        ],
    );
}

#[test]
fn a_large_count_is_folded_into_its_datatype() {
    let text = generate(
        "[send core]\nMPI_Send(sendbuf buf, int/count count, datatype datatype, rank dest, tag tag, \
         comm comm)\n[collective direct]\nMPI_Bcast(recvbuf buffer, int/count count, \
         datatype datatype, rank root, comm comm)\n",
    );
    holds_in_order(
        &text,
        &[
            "fn PMPI_Send(buf: *const c_void, count: i32,",
            "upper_half::send(pass(App(abi::buffer(buf as _))), count as _, datatype_,",
            "fn PMPI_Send_c(buf: *const c_void, count: i64,",
            "let count_fold = match upper_half::fold(count, datatype_) {",
            "let datatype_ = count_fold.datatype();",
            "upper_half::send(pass(App(abi::buffer(buf as _))), count_fold.count(), datatype_,",
            "fn PMPI_Bcast_c(",
            "let code = upper_half::collective(comm_, upper_half::Inputs::Stay, &mut |code| {",
            "*code = upper_half::stubs::MPI_Bcast(abi::buffer(buffer as _) as _, count_fold.count(), \
             datatype_.lower(),",
        ],
    );
}

#[test]
fn large_reductions_and_arrays_of_counts_cross_as_they_are() {
    let text = generate(
        "[collective direct]\nMPI_Reduce_scatter(sendbuf sendbuf, recvbuf recvbuf, \
         int/count recvcounts[size(comm)], datatype datatype, op op, comm comm)\n",
    );
    holds_in_order(
        &text,
        &[
            "fn PMPI_Reduce_scatter_c(",
            "upper_half::may_reduce(op_, common::total(recvcounts, common::collective_size(comm_)), \
             \"MPI_Reduce_scatter_c\")",
            "upper_half::stubs::MPI_Reduce_scatter_c(",
            "recvcounts as _, datatype_.lower()",
        ],
    );
}

#[test]
fn words_are_read_after_the_clock() {
    let text = generate(
        "[collective-nonblocking direct]\nMPI_Ialltoallw(sendbuf sendbuf, \
         int sendcounts[size(comm)], int sdispls[size(comm)], datatype sendtypes[size(comm)], \
         recvbuf recvbuf, int recvcounts[size(comm)], int rdispls[size(comm)], \
         datatype recvtypes[size(comm)], comm comm, out request request)\n",
    );
    holds_in_order(
        &text,
        &[
            "let comm_ = abi::comm(comm);",
            "let sendtypes_len = if abi::buffer(sendbuf as _)",
            "upper_half::collective_begin(comm_)",
            "let mut handles: Box<[usize]>",
            "upper_half::stubs::MPI_Ialltoallw(",
            "comm_.lower(), &raw mut request_lower)",
            "upper_half::collective_request(clock, request_lower, Some(handles))",
            "else { upper_half::collective_end(clock); code }",
        ],
    );
}

#[test]
fn a_handle_is_written_back_when_the_call_has_changed_it() {
    let text = generate("[local core]\nMPI_Type_free(inout datatype datatype)\n");
    holds_in_order(
        &text,
        &[
            "let datatype_given: &'static Datatype = abi::datatype(*datatype);",
            "let code = upper_half::type_free(pass(Local(&raw mut datatype_)));",
            "if !core::ptr::eq(datatype_, datatype_given) \
             { *datatype = abi::datatype_out(datatype_); }",
        ],
    );
}

#[test]
fn access_to_a_window_of_one_process_does_not_cross() {
    let text = generate(
        "[window direct]\nMPI_Rput(sendbuf origin_addr, int/count origin_count, \
         datatype origin_datatype, rank target_rank, aint target_disp, int/count target_count, \
         datatype target_datatype, win win, out request request)\n",
    );
    for alone in [
        "upper_half::direct_window::put(pass(App(abi::buffer(origin_addr as _))), origin_count as _, \
         origin_datatype_, abi::rank_in(target_rank) as _, target_disp as _, target_count as _, \
         target_datatype_, win_)",
        "upper_half::direct_window::put(pass(App(abi::buffer(origin_addr as _))), origin_count_fold.count(), \
         origin_datatype_, abi::rank_in(target_rank) as _, target_disp as _, \
         target_count_fold.count(), target_datatype_, win_)",
    ] {
        holds_in_order(
            &text,
            &[
                "match win_.body.is_direct() { true =>",
                alone,
                "false => upper_half::stubs::MPI_Rput(",
                "abi::rank_in(target_rank) as _, win_.body.in_bytes(target_disp as _, abi::rank_in(target_rank))",
                "true => upper_half::direct_window::request(), false => upper_half::access_request(",
            ],
        );
    }
}

#[test]
fn an_accumulating_function_asks_the_window() {
    let text = generate(
        "[window direct]\nMPI_Raccumulate(sendbuf origin_addr, int/count origin_count, \
         datatype origin_datatype, rank target_rank, aint target_disp, int/count target_count, \
         datatype target_datatype, op op, win win, out request request)\n",
    );
    holds_in_order(
        &text,
        &[
            "match win_.body.accumulates_here() { true => upper_half::accumulate::accumulate(",
            "false => upper_half::stubs::MPI_Raccumulate(",
            "match win_.body.accumulates_here() { true => \
             upper_half::accumulate::request(abi::rank_in(target_rank), win_)",
            "false => upper_half::access_request(",
        ],
    );
}

#[test]
fn only_statuses_of_completed_requests_are_written() {
    let text = generate(
        "[completion core]\nMPI_Waitsome(int incount, inout request array_of_requests[incount], \
         out int-or-undefined outcount, out int array_of_indices[outcount], \
         out status array_of_statuses[outcount])\n",
    );
    holds_in_order(
        &text,
        &[
            "let array_of_statuses_len = common::entries(incount);",
            "upper_half::waitsome(incount as _, pass(Local((array_of_requests_, array_of_requests_len)))",
            "for entry in 0..common::entries(*outcount).min(array_of_statuses_len)",
        ],
    );
}

#[test]
fn refusal_names_the_function() {
    let text = generate("[process refuse]\nMPI_Comm_join(int fd, out comm intercomm)\n");
    holds_in_order(
        &text,
        &[
            "upper_half::unsupported(\"MPI_Comm_join\", \"its processes would not be part",
            "failed_comm(world(), contract::abi::ERR_UNSUPPORTED_OPERATION, \"MPI_Comm_join\")",
        ],
    );
}

#[test]
fn a_collective_on_a_file_counts_in_the_files_clock() {
    let text = generate(
        "[file-collective-nonblocking direct]\nMPI_File_iread_all(file fh, recvbuf buf, int count, \
         datatype datatype, out request request)\n[file direct]\nMPI_File_iwrite_shared(file fh, \
         sendbuf buf, int count, datatype datatype, out request request)\n",
    );
    holds_in_order(
        &text,
        &[
            "let fh_ = abi::file(fh);",
            "if fh_.body.is_sequential() { return failed_file(fh_, ",
            "let clock = upper_half::collective_begin(fh_.body.comm());",
            "upper_half::stubs::MPI_File_iread_all(fh_.lower(), ",
            "upper_half::file_collective_request(clock, request_lower)",
            "let fh_ = abi::file(fh);",
            "fh_.body.shares_pointer();",
            "upper_half::stubs::MPI_File_iwrite_shared(fh_.lower(), ",
            "upper_half::file_request(request_lower)",
        ],
    );
}

#[test]
fn the_whole_table_has_rules() {
    let text = super::front();
    assert!(!text.contains("compile_error!"), "{}", {
        let at = text.find("compile_error!").unwrap_or(0);
        &text[at..(at + 200).min(text.len())]
    });
}

#[test]
fn a_profile_is_told_only_where_tools_are() {
    let text = generate(
        "[send core]\nMPI_Send(sendbuf buf, int/count count, datatype datatype, rank dest, tag tag, \
         comm comm)\nMPI_Send_init(sendbuf buf, int count, datatype datatype, rank dest, tag tag, \
         comm comm, out request request)\n[collective direct]\n\
         MPI_Gatherv(sendbuf sendbuf, int sendcount, datatype sendtype, recvbuf recvbuf, \
         int recvcounts[size(comm)], int displs[size(comm)], datatype recvtype, rank root, comm comm)\n\
         MPI_Barrier(comm comm)\n[collective-nonblocking direct]\n\
         MPI_Ibcast(recvbuf buffer, int count, datatype datatype, rank root, comm comm, \
         out request request)\n[local core]\nMPI_Comm_size(comm comm, out int size)\n",
    );
    let notes = text.lines().filter(|line| line.contains("profile::notes"));
    assert!(notes
        .clone()
        .all(|line| line.contains("if upper_half::tools::any()") || line.contains("let told = ")));
    holds_in_order(
        &text,
        &[
            "fn PMPI_Send(",
            "CallGuard::enter_of(32)",
            "profile::notes(32, Some(comm_), Some((i64::from(count), Some(datatype_))));",
            "fn PMPI_Send_c(",
            "profile::notes(33, Some(comm_), Some((i64::from(count_fold.count()), Some(datatype_))));",
            "fn PMPI_Send_init(",
            "profile::notes(34, Some(comm_), None);",
            "fn PMPI_Gatherv(",
            "if upper_half::profile::has_data(abi::rank_in(root), false) {",
            "if upper_half::profile::in_place(abi::buffer(sendbuf as _) as _) \
             { (i64::from(*recvcounts.add(common::entries(comm_.body.rank))), Some(recvtype_)) } \
             else { (i64::from(sendcount), Some(sendtype_)) }",
            "fn PMPI_Barrier(",
            "profile::notes(36, Some(comm_), None);",
            "fn PMPI_Bcast_init(",
            "profile::notes(38, Some(comm_), None); upper_half::profile::repeats(Some(\
             if upper_half::profile::has_data(abi::rank_in(root), true)",
            "fn PMPI_Comm_size(",
        ],
    );
}

#[test]
fn results_of_collective_operations_are_told_where_they_are() {
    let text = generate(
        "[collective direct]\nMPI_Bcast(recvbuf buffer, int/count count, datatype datatype, rank root, comm comm)\n\
         MPI_Allgather(sendbuf sendbuf, int/count sendcount, datatype sendtype, recvbuf recvbuf, \
         int/count recvcount, datatype recvtype, comm comm)\n",
    );
    holds_in_order(
        &text,
        &[
            "Some(contract::abi::SUCCESS) => { if upper_half::tools::any() { upper_half::told::received(comm_, \
             comm_.body.rank != abi::rank_in(root) as i32, pass(App(abi::buffer(buffer as _))), count as i64, \
             datatype_); }",
            "fn PMPI_Bcast(",
            "return failed_comm(comm_, code, \"MPI_Bcast\"); }",
            "upper_half::told::received(comm_, comm_.body.rank != abi::rank_in(root) as i32",
            "fn PMPI_Bcast_c(",
            "count_fold.count() as i64, datatype_); }",
            "fn PMPI_Allgather(",
            "recvcount as i64 * i64::from(comm_.body.size), recvtype_); }",
        ],
    );
}
