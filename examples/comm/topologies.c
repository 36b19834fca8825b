//#Ranks: 4
//#Cut: hold
//#Shows: Cartesian, graph and distributed-graph topologies after the cut, with neighbourhood collectives
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int r = test_rank, dims[2] = {0, 0}, periods[2] = {1, 0};
    MPI_Comm cart, row, graph, adjacent, distributed;
    MPI_OK(MPI_Dims_create(4, 2, dims));
    MPI_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart));
    int remain[2] = {0, 1};
    MPI_OK(MPI_Cart_sub(cart, remain, &row));
    int index[4] = {2, 3, 4, 6}, edges[6] = {1, 3, 0, 3, 0, 2};
    MPI_OK(MPI_Graph_create(MPI_COMM_WORLD, 4, index, edges, 0, &graph));
    int source = (r + 3) % 4, target = (r + 1) % 4, weight = r + 5;
    MPI_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &source, &weight, 1, &target, &weight, MPI_INFO_NULL, 0,
                                          &adjacent));
    int degree = 2, targets[2] = {(r + 1) % 4, (r + 2) % 4};
    MPI_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &r, &degree, targets, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &distributed));
    MPI_Request pending;
    int got = -1;
    MPI_OK(MPI_Ineighbor_allgather(&r, 1, MPI_INT, &got, 1, MPI_INT, adjacent, &pending));
    cut();
    MPI_OK(MPI_Wait(&pending, MPI_STATUS_IGNORE));
    CHECK_EQ(got, source);

    int ndims, status, d[2], p[2], c[2], at, from, to;
    MPI_OK(MPI_Topo_test(cart, &status));
    CHECK_EQ(status, MPI_CART);
    MPI_OK(MPI_Topo_test(graph, &status));
    CHECK_EQ(status, MPI_GRAPH);
    MPI_OK(MPI_Topo_test(adjacent, &status));
    CHECK_EQ(status, MPI_DIST_GRAPH);
    MPI_OK(MPI_Topo_test(MPI_COMM_WORLD, &status));
    CHECK_EQ(status, MPI_UNDEFINED);
    MPI_OK(MPI_Cartdim_get(cart, &ndims));
    CHECK_EQ(ndims, 2);
    MPI_OK(MPI_Cart_get(cart, 2, d, p, c));
    CHECK(d[0] == 2 && d[1] == 2 && p[0] == 1 && p[1] == 0 && c[0] == r / 2 && c[1] == r % 2, "rank %d: %dx%d", r, d[0],
          d[1]);
    MPI_OK(MPI_Cart_rank(cart, c, &at));
    CHECK_EQ(at, r);
    MPI_OK(MPI_Cart_coords(cart, 3 - r, 2, c));
    CHECK(c[0] == (3 - r) / 2 && c[1] == (3 - r) % 2, "(%d, %d)", c[0], c[1]);
    MPI_OK(MPI_Cart_shift(cart, 0, 1, &from, &to));
    CHECK(from == (r + 2) % 4 && to == (r + 2) % 4, "%d, %d", from, to);
    MPI_OK(MPI_Cart_shift(cart, 1, 1, &from, &to));
    CHECK_EQ(from, r % 2 ? r - 1 : MPI_PROC_NULL);
    CHECK_EQ(to, r % 2 ? MPI_PROC_NULL : r + 1);
    int out = 10 * r, around[4] = {-1, -1, -1, -1};
    MPI_OK(MPI_Neighbor_allgather(&out, 1, MPI_INT, around, 1, MPI_INT, cart));
    CHECK_EQ(around[0], 10 * ((r + 2) % 4));
    CHECK_EQ(around[2], r % 2 ? 10 * (r - 1) : -1);
    int members = 0;
    MPI_OK(MPI_Comm_size(row, &members));
    CHECK_EQ(members, 2);
    MPI_OK(MPI_Cart_get(row, 1, d, p, c));
    CHECK(d[0] == 2 && p[0] == 0 && c[0] == r % 2, "row %d", c[0]);

    int nodes, nedges, neighbours[4], count, *of_graph = edges + (r ? index[r - 1] : 0);
    MPI_OK(MPI_Graphdims_get(graph, &nodes, &nedges));
    CHECK(nodes == 4 && nedges == 6, "%d nodes, %d edges", nodes, nedges);
    MPI_OK(MPI_Graph_neighbors_count(graph, r, &count));
    CHECK_EQ(count, index[r] - (r ? index[r - 1] : 0));
    MPI_OK(MPI_Graph_neighbors(graph, r, count, neighbours));
    for (int i = 0; i < count; i++)
        CHECK_EQ(neighbours[i], of_graph[i]);

    int indegree, outdegree, weighted, sources[2], sw[2], dests[2], dw[2];
    MPI_OK(MPI_Dist_graph_neighbors_count(adjacent, &indegree, &outdegree, &weighted));
    CHECK(indegree == 1 && outdegree == 1 && weighted, "%d in, %d out", indegree, outdegree);
    MPI_OK(MPI_Dist_graph_neighbors(adjacent, 1, sources, sw, 1, dests, dw));
    CHECK(sources[0] == source && dests[0] == target && sw[0] == weight && dw[0] == weight, "%d -> %d", sources[0],
          dests[0]);
    MPI_OK(MPI_Dist_graph_neighbors_count(distributed, &indegree, &outdegree, &weighted));
    CHECK(indegree == 2 && outdegree == 2 && !weighted, "%d in, %d out", indegree, outdegree);
    int twice[2] = {r, r + 100}, arrived[2] = {-1, -1};
    MPI_OK(MPI_Neighbor_alltoall(twice, 1, MPI_INT, arrived, 1, MPI_INT, distributed));
    int sum = arrived[0] + arrived[1];
    CHECK_EQ(sum, (r + 3) % 4 + (r + 2) % 4 + 100);
    test_add(around, sizeof around);
    MPI_Comm *all[5] = {&cart, &row, &graph, &adjacent, &distributed};
    for (int i = 0; i < 5; i++)
        MPI_OK(MPI_Comm_free(all[i]));
    return test_finish("topologies");
}
