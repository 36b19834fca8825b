//#Shows: the tools interface passes through; after a restart what was learned of the former library is refused, freed, and learned anew
//#Ranks: 2
//#Mpi: openmpi, mpich
//#Cut: hold
//#Variant: inside
//#Variant: twice; modes=cycle
#include "../stasis_test.h"

/* Whether the job was restarted: the harness then has another folder beside the file to wait for. */
static int restarted(void)
{
    const char *go = getenv("STASIS_TEST_GO");
    char path[4096];
    if (!go)
        return 0;
    snprintf(path, sizeof path, "%.*srestart", (int)(strlen(go) - strlen("go")), go);
    return access(path, F_OK) == 0;
}

struct held {
    int cvar, pvar;
    char name[256];
    MPI_T_cvar_handle control;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle performance;
    MPI_T_enum enumeration;
    int value;
};

static int size_of(MPI_Datatype type)
{
    int size = 0;
    CHECK(type != MPI_DATATYPE_NULL);
    MPI_OK(MPI_Type_size(type, &size));
    return size;
}

/* What is refused tells a program that looks at no error that there is nothing, and so no loop is endless. */
static void refused(struct held *held)
{
    int many = 1 << 30, cvars = many, pvars = many, categories = many;
    MPI_T_cvar_handle control = held->control;
    MPI_T_pvar_handle performance = MPI_T_PVAR_ALL_HANDLES;
    MPI_T_pvar_session session = held->session;
    CHECK_EQ(MPI_T_cvar_get_num(&cvars), MPI_T_ERR_NOT_INITIALIZED);
    CHECK_EQ(MPI_T_pvar_get_num(&pvars), MPI_T_ERR_NOT_INITIALIZED);
    CHECK_EQ(MPI_T_category_get_num(&categories), MPI_T_ERR_NOT_INITIALIZED);
    CHECK(cvars == 0 && pvars == 0 && categories == 0);
    cvars = pvars = categories = many;
    CHECK_EQ(MPI_T_category_get_info(0, NULL, NULL, NULL, NULL, &cvars, &pvars, &categories),
             MPI_T_ERR_NOT_INITIALIZED);
    CHECK(cvars == 0 && pvars == 0 && categories == 0);
    CHECK_EQ(MPI_T_cvar_handle_alloc(0, NULL, &control, &cvars), MPI_T_ERR_NOT_INITIALIZED);
    CHECK(control == MPI_T_CVAR_HANDLE_NULL);
    CHECK_EQ(MPI_T_pvar_handle_alloc(held->session, 0, NULL, &performance, &pvars), MPI_T_ERR_NOT_INITIALIZED);
    CHECK(performance == MPI_T_PVAR_HANDLE_NULL);
    CHECK_EQ(MPI_T_pvar_session_create(&session), MPI_T_ERR_NOT_INITIALIZED);
    CHECK(session == MPI_T_PVAR_SESSION_NULL);
    if (held->enumeration != MPI_T_ENUM_NULL) {
        CHECK_EQ(MPI_T_enum_get_info(held->enumeration, &many, NULL, NULL), MPI_T_ERR_NOT_INITIALIZED);
        CHECK_EQ(many, 0);
    }
    CHECK(cvars == 0 && pvars == 0);
}

/* Looks at every control variable, and takes hold of one that can be read, an integer of no object. */
static void find_control(struct held *held)
{
    int num = -1, verbosity, bind, scope, count, same, seen = 0;
    MPI_Datatype type;
    MPI_T_enum enumeration;
    held->cvar = -1;
    MPI_OK(MPI_T_cvar_get_num(&num));
    CHECK(num > 10, "%d control variables", num);
    for (int i = 0; i < num; i++) {
        char name[256] = "", description[512];
        int name_len = sizeof name, description_len = sizeof description;
        if (MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &enumeration, description,
                                &description_len, &bind, &scope) != MPI_SUCCESS)
            continue;
        seen++;
        CHECK(verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL);
        CHECK(scope >= MPI_T_SCOPE_CONSTANT && scope <= MPI_T_SCOPE_ALL_EQ);
        CHECK(bind >= MPI_T_BIND_NO_OBJECT && bind <= MPI_T_BIND_MPI_INFO);
        CHECK(size_of(type) > 0);
        /* Whatever is not wanted may be left out. */
        MPI_OK(MPI_T_cvar_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &same, NULL));
        CHECK_EQ(same, bind);
        if (enumeration != MPI_T_ENUM_NULL && held->enumeration == MPI_T_ENUM_NULL)
            held->enumeration = enumeration;
        if (held->cvar < 0 && bind == MPI_T_BIND_NO_OBJECT && type == MPI_INT) {
            MPI_OK(MPI_T_cvar_handle_alloc(i, NULL, &held->control, &count));
            CHECK_EQ(count, 1);
            MPI_OK(MPI_T_cvar_read(held->control, &held->value));
            MPI_OK(MPI_T_cvar_get_index(name, &same));
            CHECK_EQ(same, i);
            held->cvar = i;
            strcpy(held->name, name);
        }
    }
    CHECK(seen > 10 && held->cvar >= 0);
}

/* The same for performance variables, of which a library may have none. */
static void find_performance(struct held *held)
{
    long long counted[64];
    int num = -1, class, bind, count, readonly, continuous, same;
    MPI_Datatype type;
    held->pvar = -1;
    held->performance = MPI_T_PVAR_HANDLE_NULL;
    MPI_OK(MPI_T_pvar_session_create(&held->session));
    MPI_OK(MPI_T_pvar_get_num(&num));
    for (int i = 0; i < num && held->pvar < 0; i++) {
        char name[256] = "";
        int name_len = sizeof name;
        MPI_Comm world = MPI_COMM_WORLD;
        if (MPI_T_pvar_get_info(i, name, &name_len, NULL, &class, &type, NULL, NULL, NULL, &bind,
                                &readonly, &continuous, NULL) != MPI_SUCCESS)
            continue;
        CHECK(class >= MPI_T_PVAR_CLASS_STATE && class <= MPI_T_PVAR_CLASS_GENERIC);
        MPI_OK(MPI_T_pvar_get_index(name, class, &same));
        CHECK_EQ(same, i);
        if (bind != MPI_T_BIND_NO_OBJECT && bind != MPI_T_BIND_MPI_COMM)
            continue;
        if (MPI_T_pvar_handle_alloc(held->session, i, &world, &held->performance, &count) != MPI_SUCCESS)
            continue;
        if (count * size_of(type) > (int)sizeof counted) {
            MPI_OK(MPI_T_pvar_handle_free(held->session, &held->performance));
            continue;
        }
        if (!continuous)
            MPI_OK(MPI_T_pvar_start(held->session, held->performance));
        MPI_OK(MPI_T_pvar_read(held->session, held->performance, counted));
        held->pvar = i;
    }
    if (held->pvar >= 0)
        MPI_OK(MPI_T_pvar_stop(held->session, MPI_T_PVAR_ALL_HANDLES));
}

static void look_at_enumeration(struct held *held)
{
    int items = 0, value;
    char name[256];
    int name_len = sizeof name;
    if (held->enumeration == MPI_T_ENUM_NULL)
        return;
    MPI_OK(MPI_T_enum_get_info(held->enumeration, &items, name, &name_len));
    CHECK(items > 0);
    name_len = sizeof name;
    MPI_OK(MPI_T_enum_get_item(held->enumeration, 0, &value, name, &name_len));
}

static void look_at_categories(void)
{
    int num = -1, cvars, pvars, categories, stamp, same;
    MPI_OK(MPI_T_category_get_num(&num));
    MPI_OK(MPI_T_category_changed(&stamp));
    for (int i = 0; i < num && i < 20; i++) {
        char name[256] = "", description[512];
        int name_len = sizeof name, description_len = sizeof description, indices[8];
        MPI_OK(MPI_T_category_get_info(i, name, &name_len, description, &description_len, &cvars, &pvars,
                                       &categories));
        MPI_OK(MPI_T_category_get_index(name, &same));
        CHECK_EQ(same, i);
        MPI_OK(MPI_T_category_get_cvars(i, cvars < 8 ? cvars : 8, indices));
        MPI_OK(MPI_T_category_get_pvars(i, pvars < 8 ? pvars : 8, indices));
        MPI_OK(MPI_T_category_get_categories(i, categories < 8 ? categories : 8, indices));
    }
}

static void use(struct held *held)
{
    long long counted[64];
    int value = 0;
    MPI_OK(MPI_T_cvar_read(held->control, &value));
    CHECK_EQ(value, held->value);
    look_at_enumeration(held);
    if (held->pvar >= 0)
        MPI_OK(MPI_T_pvar_read(held->session, held->performance, counted));
}

static void release(struct held *held)
{
    MPI_OK(MPI_T_cvar_handle_free(&held->control));
    CHECK(held->control == MPI_T_CVAR_HANDLE_NULL);
    if (held->pvar >= 0) {
        MPI_OK(MPI_T_pvar_handle_free(held->session, &held->performance));
        CHECK(held->performance == MPI_T_PVAR_HANDLE_NULL);
    }
    MPI_OK(MPI_T_pvar_session_free(&held->session));
    CHECK(held->session == MPI_T_PVAR_SESSION_NULL);
}

int main(int argc, char **argv)
{
    static struct held held, other;
    int provided, num, value;
    MPI_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MPI_OK(MPI_T_cvar_get_num(&num));
    test_start(&argc, &argv);
    find_control(&held);
    find_performance(&held);
    look_at_categories();
    use(&held);
    cut();
    if (restarted()) {
        /* Nothing answers with what may be another variable's. */
        refused(&held);
        CHECK_EQ(MPI_T_cvar_read(held.control, &value), MPI_T_ERR_NOT_INITIALIZED);
        CHECK_EQ(MPI_T_cvar_get_info(held.cvar, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                 MPI_T_ERR_NOT_INITIALIZED);
        MPI_OK(MPI_T_finalize());
        MPI_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
        CHECK_EQ(MPI_T_cvar_read(held.control, &value), MPI_T_ERR_INVALID_HANDLE);
        CHECK_EQ(MPI_T_pvar_start(held.session, MPI_T_PVAR_ALL_HANDLES), MPI_T_ERR_INVALID_SESSION);
        if (held.enumeration != MPI_T_ENUM_NULL)
            CHECK_EQ(MPI_T_enum_get_info(held.enumeration, &num, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
        find_control(&other);
        find_performance(&other);
        look_at_categories();
        use(&other);
        release(&other);
    } else {
        look_at_categories();
        use(&held);
    }
    release(&held);
    MPI_OK(MPI_T_finalize());
    return test_finish("variables");
}
