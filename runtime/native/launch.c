/* Launch kernels on Level Zero or the simulator: read the Python arguments, check them, hand them to
   the driver or to the simulator's threads.

   Whatever is unusual about a launch, a wrong argument first of all, is left to a function in
   Python (`level_zero/launcher.py`, `backend/launcher.py`), which is called with the same arguments.
   On Level Zero Python's lock is held from the first argument that is set to the append: that makes
   both one step for every other thread.

   Only the limited API is used, so that one build serves every CPython from 3.11 on.

   A format has one letter for each value that a launch is given: those of Python's `struct`, 'P'
   for a pointer, 'E' for bfloat16, 's' for bytes of shared local memory, 'x' for what is no
   argument. */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <structmember.h>

#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <ze_api.h>

/* ---- Devices, and the allocations that kernels of one may use ---- */

#define CAPACITY 1024
/* Linux maps plain memory of a process below this address unless a program names a higher one
   (Documentation/arch/x86/x86_64/5level-paging.rst). */
#define HOST_END (UINT64_C(1) << 47)

typedef struct {
    PyObject_HEAD
    ze_command_list_handle_t list; /* NULL when the device is closed */
    ze_context_handle_t context;
    ze_device_handle_t device;
    uint64_t stream; /* a queue whose work is all in the list `stream_list` */
    ze_command_list_handle_t stream_list;
    int (*queue_state)(const void *queue); /* not 0 while the queue is recorded into a graph */
    int dlpack_type, dlpack_id; /* DLPack's name of this device, whose tensors are not asked about */
    __typeof__(zeKernelSetArgumentValue) *set_argument;
    __typeof__(zeCommandListAppendLaunchKernel) *append;
    __typeof__(zeMemGetAllocProperties) *describe;
    __typeof__(zeMemGetAddressRange) *measure;
    size_t known;
    struct { uint64_t begin, end; } allocations[CAPACITY]; /* sorted, without overlaps */
} Device;

/* How many known allocations begin at or before an address. */
static size_t begun(const Device *d, uint64_t address)
{
    size_t low = 0, high = d->known;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (d->allocations[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int is_known(const Device *d, uint64_t address)
{
    size_t count = begun(d, address);
    return count && address < d->allocations[count - 1].end;
}

static void forget(Device *d, uint64_t begin, uint64_t end)
{
    size_t kept = 0;
    for (size_t n = 0; n < d->known; n++)
        if (d->allocations[n].begin >= end || d->allocations[n].end <= begin)
            d->allocations[kept++] = d->allocations[n];
    d->known = kept;
}

static void remember(Device *d, uint64_t begin, uint64_t end)
{
    forget(d, begin, end);
    if (d->known == CAPACITY)
        return;
    size_t at = begun(d, begin);
    memmove(&d->allocations[at + 1], &d->allocations[at],
            (d->known++ - at) * sizeof d->allocations[0]);
    d->allocations[at].begin = begin;
    d->allocations[at].end = end;
}

static PyObject *change(PyObject *self, PyObject *span, void (*how)(Device *, uint64_t, uint64_t))
{
    unsigned long long begin, end;
    if (!PyArg_ParseTuple(span, "KK", &begin, &end))
        return NULL;
    how((Device *)self, begin, end);
    Py_RETURN_NONE;
}

static PyObject *device_remember(PyObject *self, PyObject *span)
{
    return change(self, span, remember);
}

static PyObject *device_forget(PyObject *self, PyObject *span)
{
    return change(self, span, forget);
}

static PyObject *device_knows(PyObject *self, PyObject *address)
{
    return PyBool_FromLong(is_known((Device *)self, PyLong_AsUnsignedLongLongMask(address)));
}

/* Whether kernels may use the memory at an address.  `launcher.DeviceState` says what may be
   remembered. */
static int may_use(Device *d, uint64_t address)
{
    ze_memory_allocation_properties_t found = {ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_device_handle_t owner = NULL;
    void *pointer = (void *)(uintptr_t)address, *base;
    size_t size;
    if (!address || is_known(d, address))
        return 1;
    if (d->describe(d->context, pointer, &found, &owner) || found.type == ZE_MEMORY_TYPE_UNKNOWN)
        return 0;
    if (found.type != ZE_MEMORY_TYPE_DEVICE)
        return 1;
    if (owner != d->device)
        return 0;
    if (address >= HOST_END && !d->measure(d->context, pointer, &base, &size))
        remember(d, (uintptr_t)base, (uintptr_t)base + size);
    return 1;
}

/* Device(zeKernelSetArgumentValue, ...): addresses of the functions, in the order of the record. */
static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    unsigned long long calls[4];
    if (!PyArg_ParseTuple(args, "KKKK", &calls[0], &calls[1], &calls[2], &calls[3]))
        return NULL;
    Device *d = (Device *)PyType_GenericNew(type, args, keywords);
    if (d)
        memcpy(&d->set_argument, calls, sizeof calls);
    return (PyObject *)d;
}

static void release(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

#define MEMBER(type, kind, name) {#name, kind, offsetof(type, name), 0, NULL}
#define VERSION(type, name) {#name, T_OBJECT, offsetof(type, of.name), 0, NULL}

static PyMemberDef device_members[] = {
    MEMBER(Device, T_ULONGLONG, list), MEMBER(Device, T_ULONGLONG, context),
    MEMBER(Device, T_ULONGLONG, device), MEMBER(Device, T_ULONGLONG, stream),
    MEMBER(Device, T_ULONGLONG, stream_list), MEMBER(Device, T_ULONGLONG, queue_state),
    MEMBER(Device, T_INT, dlpack_type),
    MEMBER(Device, T_INT, dlpack_id), {NULL},
};
static PyMethodDef device_methods[] = {
    {"remember", device_remember, METH_VARARGS, NULL},
    {"forget", device_forget, METH_VARARGS, NULL},
    {"knows", device_knows, METH_O, NULL},
    {NULL},
};
static PyType_Slot device_slots[] = {
    {Py_tp_new, device_new}, {Py_tp_dealloc, release}, {Py_tp_members, device_members},
    {Py_tp_methods, device_methods}, {0, NULL},
};
static PyType_Spec device_spec = {
    "triton_xe.runtime.native.launch.Device", sizeof(Device), 0, Py_TPFLAGS_DEFAULT, device_slots,
};
static PyTypeObject *device_type;

/* ---- Conditions of a launch: what `triton_xe/conditions.py` says, and in its order ---- */

enum { CONSTANT, ARGUMENT, ADDRESS, PROGRAM, PROGRAMS, ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER,
       MINIMUM, MAXIMUM, EITHER, SPAN, REST, AT_LEAST, MULTIPLE };
#define ALIGNMENT 64
#define MANY_ZEROS 62

typedef struct {
    int64_t a;
    uint16_t b;
    uint8_t op, bits;
} Step;
_Static_assert(sizeof(Step) == 16, "a step as conditions.py packs it");

typedef struct { int64_t low, high; int zeros; } Range;

typedef struct {
    size_t inputs, computed; /* how many steps read a launch, and how many follow from others */
    int is_known, failing; /* the answer for the inputs that the ranges hold */
    Range *ranges;
    uint16_t *order; /* the numbers of these, then of those */
    Step steps[];
} Conditions;

static Range exact(int64_t value)
{
    int zeros = value ? __builtin_ctzll((uint64_t)value) : MANY_ZEROS;
    return (Range){value, value, zeros < MANY_ZEROS ? zeros : MANY_ZEROS};
}

typedef __int128 Wide; /* sums and products of two numbers always have room */
static Wide least(Wide x, Wide y) { return x < y ? x : y; }
static Wide most(Wide x, Wide y) { return x > y ? x : y; }

static Range input(const Step *s, const uint64_t *arguments, const uint64_t *grid)
{
    switch (s->op) {
    case ARGUMENT: return exact((int64_t)(arguments[s->a] << (64 - s->bits)) >> (64 - s->bits));
    case ADDRESS: return exact(arguments[s->a] % ALIGNMENT);
    case PROGRAMS: return exact(grid[s->a]);
    case PROGRAM:
        return grid[s->a] > 1 ? (Range){0, (int64_t)grid[s->a] - 1, 0} : exact(0);
    default: return exact(s->a);
    }
}

static Range remainder_of(const Range *x, const Range *y)
{
    if (x->low == x->high && y->low == y->high)
        return exact(x->low % y->low);
    if (-y->low < x->low && x->high < y->low)
        return *x;
    int zeros = (int)least(x->zeros, y->zeros);
    int64_t end = y->high - (INT64_C(1) << zeros);
    return (Range){(int64_t)most(least(x->low, 0), -end), (int64_t)least(most(x->high, 0), end),
                   zeros};
}

/* The range of an arithmetic step; 0 where it may overflow or divide by no positive number. */
static int compute(const Step *s, const Range *x, const Range *y, Range *to)
{
    Wide a = x->low, b = x->high, c = y->low, d = y->high, low, high;
    int zeros = (int)least(x->zeros, y->zeros);
    if ((s->op == DIVIDE || s->op == REMAINDER) && y->low < 1)
        return 0;
    switch (s->op) {
    case ADD: low = a + c; high = b + d; break;
    case SUBTRACT: low = a - d; high = b - c; break;
    case MULTIPLY:
        low = least(least(a * c, a * d), least(b * c, b * d));
        high = most(most(a * c, a * d), most(b * c, b * d));
        zeros = (int)least(x->zeros + y->zeros, MANY_ZEROS);
        break;
    case DIVIDE: /* farthest from zero for the smallest divisor */
        low = x->low / (x->low < 0 ? y->low : y->high);
        high = x->high / (x->high < 0 ? y->high : y->low);
        zeros = 0;
        break;
    case REMAINDER:
        *to = remainder_of(x, y);
        low = to->low, high = to->high, zeros = to->zeros;
        break;
    case MINIMUM: low = least(a, c); high = least(b, d); break;
    case MAXIMUM: low = most(a, c); high = most(b, d); break;
    case EITHER: low = least(a, c); high = most(b, d); break;
    default: low = a; high = most(b, d - 1); zeros = 0;
    }
    Wide end = (Wide)1 << (s->bits - 1);
    *to = low == high ? exact((int64_t)low) : (Range){(int64_t)low, (int64_t)high, zeros};
    return -end <= low && high < end;
}

static Range rest(const Range *x, int power)
{
    int64_t size = INT64_C(1) << power, low = x->low & (size - 1), high = x->high & (size - 1);
    if (x->low >> power == x->high >> power)
        return low == high ? exact(low) : (Range){low, high, (int)least(x->zeros, power)};
    return x->zeros >= power ? exact(0)
                             : (Range){0, size - (INT64_C(1) << x->zeros), x->zeros};
}

/* The first step that does not hold, or cannot be computed; -1 when all conditions hold. */
static int evaluate(const Conditions *c)
{
    for (size_t n = 0; n < c->computed; n++) {
        size_t at = c->order[c->inputs + n];
        const Step *s = &c->steps[at];
        const Range *x = &c->ranges[s->a];
        if (s->op == AT_LEAST) {
            if (x->low < c->ranges[s->b].high)
                return (int)at;
        } else if (s->op == MULTIPLE) {
            if (x->zeros < s->b)
                return (int)at;
        } else if (s->op == REST) {
            c->ranges[at] = rest(x, s->b);
        } else if (!compute(s, x, &c->ranges[s->b], &c->ranges[at])) {
            return (int)at;
        }
    }
    return -1;
}

/* What `evaluate` says of a launch; the answer is kept for launches of the same inputs. */
static int failing(Conditions *c, const uint64_t *arguments, const uint64_t *grid)
{
    if (!grid[0] || !grid[1] || !grid[2])
        return -1;
    for (size_t n = 0; n < c->inputs; n++) {
        size_t at = c->order[n];
        Range now = input(&c->steps[at], arguments, grid), *then = &c->ranges[at];
        if (now.low != then->low || now.high != then->high || now.zeros != then->zeros) {
            *then = now;
            c->is_known = 0;
        }
    }
    if (!c->is_known) {
        c->failing = evaluate(c);
        c->is_known = 1;
    }
    return c->failing;
}

/* The versions of a kernel: which of them is for a launch. */
typedef struct {
    Conditions *conditions; /* NULL: the kernel runs for every launch */
    PyObject *general;      /* the kernel for launches that do not satisfy them, once loaded */
} Versions;

/* The kernel for a launch: `own`, another one, or NULL where Python has to load that first. */
static PyObject *chosen(const Versions *v, PyObject *own, const uint64_t *read, const uint64_t *grid)
{
    if (!v->conditions || failing(v->conditions, read, grid) < 0)
        return own;
    return v->general && Py_IS_TYPE(v->general, Py_TYPE(own)) ? v->general : NULL;
}

/* The conditions of a packed table; NULL with an exception. */
static Conditions *read_conditions(PyObject *packed)
{
    char *data;
    Py_ssize_t bytes;
    if (PyBytes_AsStringAndSize(packed, &data, &bytes))
        return NULL;
    size_t count = (size_t)bytes / sizeof(Step);
    size_t each = sizeof(Step) + sizeof(Range) + sizeof(uint16_t);
    Conditions *c = count <= UINT16_MAX ? PyMem_Calloc(1, sizeof *c + count * each) : NULL;
    if (!c)
        return (Conditions *)PyErr_NoMemory();
    memcpy(c->steps, data, count * sizeof(Step));
    c->ranges = (Range *)&c->steps[count];
    c->order = (uint16_t *)&c->ranges[count];
    for (size_t n = 0; n < count; n++)
        if (c->steps[n].op == CONSTANT)
            c->ranges[n] = exact(c->steps[n].a);
        else if (c->steps[n].op < ADD)
            c->order[c->inputs++] = (uint16_t)n;
    for (size_t n = 0; n < count; n++)
        if (c->steps[n].op >= ADD)
            c->order[c->inputs + c->computed++] = (uint16_t)n;
    return c;
}

/* assume(packed table): launch this kernel only when the conditions hold. */
static PyObject *assume(Versions *v, PyObject *packed)
{
    Conditions *c = read_conditions(packed);
    if (!c)
        return NULL;
    PyMem_Free(v->conditions);
    v->conditions = c;
    Py_RETURN_NONE;
}

/* ---- Kernels ---- */

#define MOST_ARGUMENTS 256

typedef struct {
    PyObject_HEAD
    Device *device;
    ze_kernel_handle_t handle; /* NULL when the kernel is closed */
    int is_busy;  /* Python is setting arguments */
    int has_last; /* the driver has the values in `last` */
    int is_cooperative; /* left to Python, which asks how many groups the device holds at once */
    Versions of;
    PyObject *versions; /* for Python */
    uint64_t last[MOST_ARGUMENTS];
    char types[MOST_ARGUMENTS + 1]; /* a format */
} Kernel;

static PyObject *kernel_assume(PyObject *self, PyObject *packed)
{
    return assume(&((Kernel *)self)->of, packed);
}

/* Kernel(device, handle, format) */
static PyObject *kernel_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *device;
    unsigned long long handle;
    const char *types;
    if (!PyArg_ParseTuple(args, "O!Ky", device_type, &device, &handle, &types))
        return NULL;
    Kernel *k = (Kernel *)PyType_GenericNew(type, args, keywords);
    if (k) {
        k->device = (Device *)Py_NewRef(device);
        k->handle = (ze_kernel_handle_t)(uintptr_t)handle;
        strncpy(k->types, types, MOST_ARGUMENTS);
    }
    return (PyObject *)k;
}

static void kernel_release(PyObject *self)
{
    Kernel *k = (Kernel *)self;
    Py_XDECREF((PyObject *)k->device);
    Py_XDECREF(k->versions);
    Py_XDECREF(k->of.general);
    PyMem_Free(k->of.conditions);
    release(self);
}

static PyMemberDef kernel_members[] = {
    MEMBER(Kernel, T_ULONGLONG, handle), MEMBER(Kernel, T_INT, is_busy),
    MEMBER(Kernel, T_INT, is_cooperative),
    MEMBER(Kernel, T_INT, has_last), MEMBER(Kernel, T_OBJECT, versions),
    VERSION(Kernel, general), {NULL},
};
static PyMethodDef kernel_methods[] = {{"assume", kernel_assume, METH_O, NULL}, {NULL}};
static PyType_Slot kernel_slots[] = {
    {Py_tp_new, kernel_new}, {Py_tp_dealloc, kernel_release}, {Py_tp_members, kernel_members},
    {Py_tp_methods, kernel_methods}, {0, NULL},
};
static PyType_Spec kernel_spec = {
    "triton_xe.runtime.native.launch.Kernel", sizeof(Kernel), 0, Py_TPFLAGS_DEFAULT, kernel_slots,
};
static PyTypeObject *kernel_type;

/* ---- Tensors, by the C interface of DLPack 1 (github.com/dmlc/dlpack, dlpack.h) ---- */

typedef struct {
    void *data;
    struct { int32_t type, id; } device;
    int32_t dimensions;
    struct { uint8_t code, bits; uint16_t lanes; } element;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct {
    struct { uint32_t major, minor; void *previous; } header;
    void *allocate, *to_managed, *from_managed;
    int (*view)(PyObject *tensor, DLTensor *out);
    void *current_stream;
} DLPackExchange;

static PyObject *tensor_types[2];
static const DLPackExchange *exchange;

/* read_tensors(type, type, capsule): read tensors of just these types through the interface. */
static PyObject *read_tensors(PyObject *self, PyObject *args)
{
    PyObject *types[2], *capsule;
    if (!PyArg_ParseTuple(args, "OOO", &types[0], &types[1], &capsule))
        return NULL;
    exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!exchange)
        return NULL;
    for (int n = 0; n < 2; n++) {
        Py_XDECREF(tensor_types[n]);
        tensor_types[n] = exchange->header.major == 1 ? Py_NewRef(types[n]) : NULL;
    }
    Py_RETURN_NONE;
}

static int view(PyObject *o, DLTensor *to)
{
    PyObject *type = (PyObject *)Py_TYPE(o);
    int is_read = (type == tensor_types[0] || type == tensor_types[1]) && !exchange->view(o, to);
    if (!is_read)
        PyErr_Clear();
    return is_read;
}

/* device_of(tensor): what DLPack calls its device; (0, 0) when it is not read through DLPack. */
static PyObject *device_of(PyObject *self, PyObject *tensor)
{
    DLTensor found;
    int is_read = view(tensor, &found);
    return Py_BuildValue("ii", is_read ? found.device.type : 0, is_read ? found.device.id : 0);
}

/* ---- Values of a launch; what reads one answers whether it could ---- */

static PyObject *data_ptr_name, *calls_name, *state_name;

/* An integer of 64 bits, signed or unsigned. */
static int read_wide(PyObject *o, uint64_t *to)
{
    *to = PyLong_AsUnsignedLongLong(o);
    if (*to != UINT64_MAX || !PyErr_Occurred())
        return 1;
    PyErr_Clear();
    *to = PyLong_AsLongLong(o);
    return *to != UINT64_MAX || !PyErr_Occurred();
}

static int read_narrow(PyObject *o, int bits, uint64_t *to)
{
    long long value = PyLong_AsLongLong(o), end = 1LL << bits;
    *to = value;
    return value < end && value >= (bits == 1 ? 0 : -end / 2) && (value != -1 || !PyErr_Occurred());
}

/* The nearest number, ties to even; one that is too large for a half is left over. */
static int read_float(PyObject *o, char type, uint64_t *to)
{
    double value = PyFloat_AsDouble(o);
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (value == -1.0 && PyErr_Occurred())
        return 0;
    if (type == 'd') {
        memcpy(to, &value, sizeof value);
    } else if (type == 'f') {
        *to = bits;
    } else if (type == 'E') {
        *to = isnan(value) ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    } else {
#ifdef __FLT16_MAX__
        _Float16 half = (_Float16)value;
        *to = 0;
        memcpy(to, &half, sizeof half);
        return isinf(value) || !isinf((double)half);
#else
        return 0;
#endif
    }
    return 1;
}

static int read_pointer(Device *d, PyObject *o, uint64_t *to)
{
    DLTensor tensor;
    *to = 0;
    if (Py_IsNone(o))
        return 1;
    if (PyLong_CheckExact(o))
        return read_wide(o, to) && may_use(d, *to);
    if (view(o, &tensor)) {
        *to = (uintptr_t)tensor.data + tensor.byte_offset;
        if (d->dlpack_type == tensor.device.type && d->dlpack_id == tensor.device.id)
            return 1;
        return may_use(d, *to);
    }
    PyObject *answer = PyObject_CallMethodObjArgs(o, data_ptr_name, NULL);
    int is_read = answer && read_wide(answer, to);
    Py_XDECREF(answer);
    return is_read && may_use(d, *to);
}

static int read_number(PyObject *o, char type, uint64_t *to)
{
    switch (type) {
    case '?': return read_narrow(o, 1, to);
    case 'b': return read_narrow(o, 8, to);
    case 'h': return read_narrow(o, 16, to);
    case 'i': return read_narrow(o, 32, to);
    case 'q': case 's': return read_wide(o, to);
    default: return read_float(o, type, to);
    }
}

static size_t size_of(char type)
{
    switch (type) {
    case '?': case 'b': return 1;
    case 'h': case 'e': case 'E': return 2;
    case 'i': case 'f': return 4;
    default: return 8;
    }
}

/* ---- Launches ---- */

/* Pointers are set at every launch: the driver must look up the allocation again. */
static int set_argument(Kernel *k, uint32_t index, char type, uint64_t value)
{
    if (type != 'P' && type != 's' && k->has_last && k->last[index] == value)
        return 1;
    k->last[index] = value;
    return !k->device->set_argument(k->handle, index, type == 's' ? value : size_of(type),
                                    type == 's' ? NULL : &value);
}

/* Whether a kernel with parameters of these types has those of a format; bfloat16 travels as a
   16-bit integer. */
static int fits(const char *types, const char *format)
{
    for (; *format; format++) {
        char type = *format == 'E' ? 'h' : *format;
        if (type != 'x' && type != (*types == 'E' ? 'h' : *types))
            return 0;
        types += type != 'x';
    }
    return !*types;
}

/* The number of a program is a signed 32-bit integer. */
static int read_grid(PyObject *const *sizes, uint64_t *grid)
{
    for (int n = 0; n < 3; n++)
        if (!read_wide(sizes[n], &grid[n]) || grid[n] > INT32_MAX)
            return 0;
    return 1;
}

static int is_open(const Kernel *k) { return k->handle && k->device->list && !k->is_busy; }

/* Read all values, choose the version of the kernel, then set all arguments, then append the kernel to the list. */
static int run(Kernel *k, const char *format, const ze_command_list_handle_t *list,
               PyObject *const *sizes, PyObject *const *values)
{
    uint64_t grid[3], read[MOST_ARGUMENTS];
    uint32_t count = 0;
    if (!read_grid(sizes, grid) || k->is_cooperative || !fits(k->types, format))
        return 0;
    for (const char *type = format; *type; type++, values++)
        if (*type != 'x' && !(*type == 'P' ? read_pointer(k->device, *values, &read[count++])
                                           : read_number(*values, *type, &read[count++])))
            return 0;
    k = (Kernel *)chosen(&k->of, (PyObject *)k, read, grid);
    if (!k || !fits(k->types, format) || !is_open(k)) /* asked last: reading a value can run Python code */
        return 0;
    count = 0;
    for (const char *type = format; *type; type++) {
        if (*type != 'x' && !set_argument(k, count, *type, read[count])) {
            k->has_last = 0;
            return 0;
        }
        count += *type != 'x';
    }
    k->has_last = 1;
    ze_group_count_t groups = {(uint32_t)grid[0], (uint32_t)grid[1], (uint32_t)grid[2]};
    return !grid[0] || !grid[1] || !grid[2] ||
           !k->device->append(*list, k->handle, &groups, NULL, 0, NULL);
}

/* ---- Launches on the simulator ---- */

/* Words of a launch, as `simulator/context.py` has them: the runner reads them. */
enum { PARTS, GRID, TOTAL = 4, CHUNK = 5, COLD = 9, ERROR_RECORD = 32, ARGUMENTS = 48 };
#define CHUNKS_PER_THREAD 32
#define MOST_PARTS 8
#define ONE_API 14 /* kDLOneAPI of dlpack.h, which torch calls xpu */

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* What the whole process has for launches; Python's lock protects it. */
static struct {
    int (*run)(void *pool, int threads, const void *work, void *launch); /* of threads.c, or NULL */
    void *pool;
    struct { const int *first; int count; } reasons[4]; /* why launches are left to Python, if any */
    PyObject *variables, *names; /* those of the process, and of which a launch asks: limits first */
    PyObject *limits[2];         /* what the two limits were when these numbers were read */
    int threads;
    int64_t nanoseconds;
    struct { int64_t *error, end; } running[64];
} simulator;

/* use_pool(address of xe_pool_run, pool): from now on; 0 for none. */
static PyObject *use_pool(PyObject *self, PyObject *args)
{
    unsigned long long run, pool;
    if (!PyArg_ParseTuple(args, "KK", &run, &pool))
        return NULL;
    simulator.run = (__typeof__(simulator.run))(uintptr_t)run;
    simulator.pool = (void *)(uintptr_t)pool;
    Py_RETURN_NONE;
}

/* unless(address, count): leave launches to Python while any of these integers is not 0. */
static PyObject *unless(PyObject *self, PyObject *args)
{
    unsigned long long address;
    int count;
    if (!PyArg_ParseTuple(args, "Ki", &address, &count))
        return NULL;
    for (int n = 0; n < 4; n++)
        if (!simulator.reasons[n].first) {
            simulator.reasons[n].first = (const int *)(uintptr_t)address;
            simulator.reasons[n].count = count;
            Py_RETURN_NONE;
        }
    PyErr_SetString(PyExc_ValueError, "too many reasons");
    return NULL;
}

/* read_limits(variables, names, threads, seconds): what the first two of these variables say now;
   0 threads are one for each core.  While one of the others is set, launches are left to Python. */
static PyObject *read_limits(PyObject *self, PyObject *args)
{
    PyObject *variables, *names;
    double seconds;
    if (!PyArg_ParseTuple(args, "O!O!id", &PyDict_Type, &variables, &PyTuple_Type, &names,
                          &simulator.threads, &seconds))
        return NULL;
    Py_XDECREF(simulator.variables);
    Py_XDECREF(simulator.names);
    simulator.variables = Py_NewRef(variables);
    simulator.names = Py_NewRef(names);
    simulator.nanoseconds = (int64_t)(seconds * 1e9);
    for (int n = 0; n < 2; n++) {
        Py_XDECREF(simulator.limits[n]);
        simulator.limits[n] = PyDict_GetItem(variables, PyTuple_GetItem(names, n));
        Py_XINCREF(simulator.limits[n]);
    }
    Py_RETURN_NONE;
}

/* Whether a limit is what it was when it was read, also where the variable was set anew. */
static int is_same_limit(int n, PyObject *value)
{
    PyObject *before = simulator.limits[n];
    if (value == before)
        return 1;
    if (!value || !before || PyObject_RichCompareBool(value, before, Py_EQ) != 1)
        return 0;
    simulator.limits[n] = Py_NewRef(value);
    Py_DECREF(before);
    return 1;
}

/* Whether nobody wants to know of launches, and the limits are those that were read. */
static int is_usual(void)
{
    if (!simulator.run || !simulator.names)
        return 0;
    for (int n = 0; n < 4; n++)
        for (int k = 0; k < simulator.reasons[n].count; k++)
            if (simulator.reasons[n].first[k])
                return 0;
    for (Py_ssize_t n = 0; n < PyTuple_Size(simulator.names); n++) {
        PyObject *name = PyTuple_GetItem(simulator.names, n);
        PyObject *value = PyDict_GetItem(simulator.variables, name);
        if (n < 2 ? !is_same_limit((int)n, value) : value != NULL)
            return 0;
    }
    return 1;
}

/* end_overdue(code): note the error `code` in launches that run for too long. */
static PyObject *end_overdue(PyObject *self, PyObject *code)
{
    int64_t time = now(), count = 0, value = PyLong_AsLongLong(code);
    for (int n = 0; n < 64; n++) {
        int64_t *error = simulator.running[n].error;
        count += error != NULL;
        if (error && time > simulator.running[n].end && !*error)
            *error = value;
    }
    return PyLong_FromLongLong(count);
}

/* The place of a launch among those that run; -1 where there are too many. */
static int watch(int64_t *error)
{
    for (int n = 0; n < 64; n++)
        if (!simulator.running[n].error) {
            simulator.running[n].error = error;
            simulator.running[n].end =
                simulator.nanoseconds ? now() + simulator.nanoseconds : INT64_MAX;
            return n;
        }
    return -1;
}

typedef struct {
    PyObject_HEAD
    PyObject *owner;   /* Python's kernel */
    PyObject *rare;    /* rare(code, grid, arguments, cold, error): after an unusual launch */
    PyObject *code;    /* what the launches run; NULL: they are left to Python */
    PyObject *journal; /* notes its launches; or None */
    int device;        /* number of its device */
    Versions of;
    int64_t spent, patience; /* nanoseconds on all threads, and how many until Python is asked */
    Py_ssize_t sub_groups;   /* flags of a work-group that came to code left out; 0: none is */
    int64_t work[7];         /* `struct work` of threads.c */
    int64_t head[ARGUMENTS];
    char types[MOST_ARGUMENTS + 1]; /* a format */
} Simulated;
static PyTypeObject *simulated_type;

/* ---- Journals: what the clock of a device has not yet counted ---- */

#define MOST_NOTED 256
#define FEW_POINTERS 32

typedef struct { Simulated *kernel; uint64_t hash, count, *words; } Note;

typedef struct {
    PyObject_HEAD
    Py_ssize_t count;
    int is_dry; /* launches are noted only, by Python */
    uint16_t places[2 * MOST_NOTED]; /* numbers of notes, from 1 on, by their hash */
    Note notes[MOST_NOTED];
} Journal;

/* What is equal for launches that take equally long: of pointers it counts which are the same. */
static uint64_t key_of(const char *types, size_t count, const uint64_t *read, uint64_t *key)
{
    uint64_t seen[FEW_POINTERS], hash = count;
    size_t pointers = 0;
    for (size_t n = 0; n < count; n++) {
        key[n] = read[n];
        if (types[n] == 'P' && pointers < FEW_POINTERS) {
            size_t at = 0;
            for (seen[pointers] = read[n]; seen[at] != read[n];)
                at++;
            pointers += at == pointers;
            key[n] = at;
        }
        hash = (hash ^ key[n]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* Note a launch, unless memory is short. */
static int note(Journal *j, Simulated *k, const uint64_t *grid, const uint64_t *read)
{
    uint64_t key[3 + MOST_ARGUMENTS];
    size_t count = strlen(k->types), bytes = (3 + count) * sizeof *key;
    memcpy(key, grid, 3 * sizeof *key);
    uint64_t hash = key_of(k->types, count, read, key + 3) ^ (uintptr_t)k >> 4;
    for (int n = 0; n < 3; n++)
        hash = (hash ^ grid[n]) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = hash >> 32;
    for (;; at++) {
        uint16_t place = j->places[at %= 2 * MOST_NOTED];
        if (!place)
            break;
        Note *old = &j->notes[place - 1];
        if (old->kernel == k && old->hash == hash && !memcmp(old->words, key, bytes)) {
            old->count++;
            return 1;
        }
    }
    uint64_t *words = PyMem_Malloc(bytes + count * sizeof *key);
    if (!words)
        return 0;
    memcpy(words, key, bytes);
    memcpy(words + 3 + count, read, count * sizeof *key);
    j->notes[j->count] = (Note){(Simulated *)Py_NewRef((PyObject *)k), hash, 1, words};
    j->places[at] = (uint16_t)++j->count;
    return 1;
}

static PyObject *number(char type, uint64_t bits)
{
    double wide;
    float narrow;
    switch (type) {
    case 'P': return PyLong_FromUnsignedLongLong(bits);
    case 'd': memcpy(&wide, &bits, sizeof wide); return PyFloat_FromDouble(wide);
    case 'f': memcpy(&narrow, &bits, sizeof narrow); return PyFloat_FromDouble(narrow);
#ifdef __FLT16_MAX__
    case 'e': {
        _Float16 half;
        memcpy(&half, &bits, sizeof half);
        return PyFloat_FromDouble(half);
    }
#endif
    default: return PyLong_FromLongLong((int64_t)bits);
    }
}

/* The numbers of a launch again; bfloat16 as its bits. */
static PyObject *numbers(const char *types, const uint64_t *read)
{
    PyObject *all = PyTuple_New((Py_ssize_t)strlen(types));
    for (Py_ssize_t n = 0; all && types[n]; n++)
        PyTuple_SetItem(all, n, number(types[n], read[n]));
    return all;
}

static PyObject *of_grid(const uint64_t *grid)
{
    return Py_BuildValue("KKK", (unsigned long long)grid[0], (unsigned long long)grid[1],
                         (unsigned long long)grid[2]);
}

/* take(): (kernel, grid, arguments, how often) of the launches since the last time. */
static PyObject *journal_take(PyObject *self, PyObject *unused)
{
    Journal *j = (Journal *)self;
    PyObject *all = PyList_New(0);
    for (Py_ssize_t n = 0; n < j->count; n++) {
        Simulated *k = j->notes[n].kernel;
        const uint64_t *words = j->notes[n].words;
        PyObject *each = all ? Py_BuildValue(
            "ONNK", k->owner, of_grid(words), numbers(k->types, words + 3 + strlen(k->types)),
            (unsigned long long)j->notes[n].count) : NULL;
        if (each)
            PyList_Append(all, each);
        Py_XDECREF(each);
        Py_DECREF((PyObject *)k);
        PyMem_Free(j->notes[n].words);
    }
    j->count = 0;
    memset(j->places, 0, sizeof j->places);
    return all;
}

static void journal_release(PyObject *self)
{
    Py_XDECREF(journal_take(self, NULL));
    release(self);
}

static PyMethodDef journal_methods[] = {{"take", journal_take, METH_NOARGS, NULL}, {NULL}};
static PyMemberDef journal_members[] = {MEMBER(Journal, T_PYSSIZET, count),
                                        MEMBER(Journal, T_INT, is_dry), {NULL}};
static PyType_Slot journal_slots[] = {
    {Py_tp_new, PyType_GenericNew}, {Py_tp_dealloc, journal_release},
    {Py_tp_members, journal_members}, {Py_tp_methods, journal_methods}, {0, NULL},
};
static PyType_Spec journal_spec = {
    "triton_xe.runtime.native.launch.Journal", sizeof(Journal), 0, Py_TPFLAGS_DEFAULT,
    journal_slots,
};
static PyTypeObject *journal_type;

/* ---- Simulated kernels ---- */

/* Simulated(owner, rare, journal or None, device, format) */
static PyObject *simulated_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *owner, *rare, *journal;
    const char *types;
    int device;
    if (!PyArg_ParseTuple(args, "OOOiy", &owner, &rare, &journal, &device, &types))
        return NULL;
    if (!Py_IsNone(journal) && !Py_IS_TYPE(journal, journal_type)) {
        PyErr_SetString(PyExc_TypeError, "not a journal");
        return NULL;
    }
    Simulated *s = (Simulated *)PyType_GenericNew(type, args, keywords);
    if (s) {
        s->owner = Py_NewRef(owner);
        s->rare = Py_NewRef(rare);
        s->journal = Py_NewRef(journal);
        s->device = device;
        strncpy(s->types, types, MOST_ARGUMENTS);
    }
    return (PyObject *)s;
}

/* prepare(code, work, head, sub_groups, patience): launch this code; `patience` in nanoseconds. */
static PyObject *simulated_prepare(PyObject *self, PyObject *args)
{
    Simulated *s = (Simulated *)self;
    PyObject *code, *before = s->code;
    const char *work, *head;
    Py_ssize_t bytes[2];
    long long patience;
    if (!PyArg_ParseTuple(args, "Oy#y#nL", &code, &work, &bytes[0], &head, &bytes[1], &s->sub_groups,
                          &patience))
        return NULL;
    if (bytes[0] != sizeof s->work || bytes[1] != sizeof s->head) {
        PyErr_SetString(PyExc_ValueError, "not the words of a launch");
        return NULL;
    }
    memcpy(s->work, work, sizeof s->work);
    memcpy(s->head, head, sizeof s->head);
    s->patience = patience;
    s->code = Py_NewRef(code);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* stop(): leave launches to Python until code is prepared again. */
static PyObject *simulated_stop(PyObject *self, PyObject *unused)
{
    Py_CLEAR(((Simulated *)self)->code);
    Py_RETURN_NONE;
}

static PyObject *simulated_assume(PyObject *self, PyObject *packed)
{
    return assume(&((Simulated *)self)->of, packed);
}

static int simulated_traverse(PyObject *self, visitproc visit, void *arg)
{
    Simulated *s = (Simulated *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(s->owner);
    Py_VISIT(s->rare);
    Py_VISIT(s->code);
    Py_VISIT(s->of.general);
    return 0;
}

static int simulated_clear(PyObject *self)
{
    Simulated *s = (Simulated *)self;
    Py_CLEAR(s->owner);
    Py_CLEAR(s->rare);
    Py_CLEAR(s->code);
    Py_CLEAR(s->of.general);
    return 0;
}

static void simulated_release(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    simulated_clear(self);
    Py_XDECREF(((Simulated *)self)->journal);
    PyMem_Free(((Simulated *)self)->of.conditions);
    release(self);
}

static PyMemberDef simulated_members[] = {
    MEMBER(Simulated, T_LONGLONG, spent), MEMBER(Simulated, T_OBJECT, code),
    VERSION(Simulated, general), {NULL},
};
static PyMethodDef simulated_methods[] = {
    {"prepare", simulated_prepare, METH_VARARGS, NULL},
    {"assume", simulated_assume, METH_O, NULL},
    {"stop", simulated_stop, METH_NOARGS, NULL}, {NULL},
};
static PyType_Slot simulated_slots[] = {
    {Py_tp_new, simulated_new}, {Py_tp_dealloc, simulated_release},
    {Py_tp_traverse, simulated_traverse}, {Py_tp_clear, simulated_clear},
    {Py_tp_members, simulated_members}, {Py_tp_methods, simulated_methods}, {0, NULL},
};
static PyType_Spec simulated_spec = {
    "triton_xe.runtime.native.launch.Simulated", sizeof(Simulated), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, simulated_slots,
};

/* The address of a tensor on the kernel's device, a number, or null. */
static int read_address(const Simulated *s, PyObject *o, uint64_t *to)
{
    DLTensor tensor;
    *to = 0;
    if (Py_IsNone(o))
        return 1;
    if (PyLong_CheckExact(o))
        return read_wide(o, to);
    if (!view(o, &tensor) || tensor.device.type != ONE_API || tensor.device.id != s->device)
        return 0;
    *to = (uintptr_t)tensor.data + tensor.byte_offset;
    return 1;
}

/* As many threads as are wanted; 0 where the system does not tell how many cores there are. */
static int64_t threads_for(int64_t total)
{
    cpu_set_t cores;
    if (total == 1 || simulator.threads)
        return (int64_t)least(total, most(simulator.threads, 1));
    return sched_getaffinity(0, sizeof cores, &cores) ? 0 : (int64_t)least(total, CPU_COUNT(&cores));
}

/* Have Python deal with a trap, or with code that was left out; 1, or -1 with its exception. */
static int end_rarely(Simulated *s, PyObject *code, const uint64_t *grid, const int64_t *words,
                      PyObject *cold)
{
    PyObject *error = words[ERROR_RECORD]
        ? PyBytes_FromStringAndSize((const char *)&words[ERROR_RECORD],
                                    sizeof *words * (ARGUMENTS - ERROR_RECORD))
        : Py_NewRef(Py_None);
    PyObject *arguments = numbers(s->types, (const uint64_t *)&words[ARGUMENTS]);
    PyObject *shape = of_grid(grid), *answer = NULL;
    if (error && arguments && shape)
        answer = PyObject_CallFunctionObjArgs(s->rare, code, shape, arguments,
                                              cold ? cold : Py_None, error, NULL);
    Py_XDECREF(error);
    Py_XDECREF(arguments);
    Py_XDECREF(shape);
    Py_XDECREF(answer);
    return answer ? 1 : -1;
}

/* Run a launch whose words are filled in but for its flags; 0 when nothing was done. */
static int run_simulated(Simulated *s, int64_t threads, const uint64_t *grid, int64_t *words)
{
    int64_t work[7]; /* another thread may prepare other code meanwhile, or close the kernel */
    PyObject *code = Py_NewRef(s->code);
    size_t flags = (size_t)(s->sub_groups * words[TOTAL]);
    PyObject *cold = flags ? PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)flags) : NULL;
    char *first = cold ? PyByteArray_AsString(cold) : NULL;
    int place = flags && !cold ? -1 : watch(&words[ERROR_RECORD]), answer = 0;
    if (place >= 0) {
        if (cold)
            words[COLD] = (intptr_t)memset(first, 0, flags);
        int failed;
        int64_t begin = now();
        memcpy(work, s->work, sizeof work);
        Py_BEGIN_ALLOW_THREADS
        failed = simulator.run(simulator.pool, (int)threads, work, words);
        Py_END_ALLOW_THREADS
        s->spent += threads * (now() - begin);
        simulator.running[place].error = NULL;
        answer = !failed;
    }
    if (answer && (words[ERROR_RECORD] || (cold && memchr(first, 1, flags))))
        answer = end_rarely(s, code, grid, words, cold);
    Py_XDECREF(cold);
    Py_DECREF(code);
    return answer;
}

/* 1: done, 0: left to Python, -1: an exception. */
static int simulate(Simulated *s, const char *format, PyObject *const *sizes,
                    PyObject *const *values)
{
    _Alignas(64) int64_t words[ARGUMENTS + MOST_ARGUMENTS];
    uint64_t grid[3], *read = (uint64_t *)&words[ARGUMENTS];
    int64_t total;
    if (!is_usual() || !fits(s->types, format) || !read_grid(sizes, grid))
        return 0;
    if (!grid[0] || !grid[1] || !grid[2])
        return 1;
    for (const char *type = format; *type; type++, values++)
        if (*type != 'x' && !(*type == 'P' ? read_address(s, *values, read++)
                                           : read_number(*values, *type, read++)))
            return 0;
    read = (uint64_t *)&words[ARGUMENTS];
    s = (Simulated *)chosen(&s->of, (PyObject *)s, read, grid);
    Journal *journal = s && !Py_IsNone(s->journal) ? (Journal *)s->journal : NULL;
    if (!s || !s->code || s->spent >= s->patience || !fits(s->types, format) ||
        (journal && (journal->is_dry || journal->count == MOST_NOTED)) ||
        __builtin_mul_overflow((int64_t)(grid[0] * grid[1]), (int64_t)grid[2], &total))
        return 0;
    int64_t threads = threads_for(total);
    if (!threads)
        return 0;
    memcpy(words, s->head, sizeof s->head);
    memcpy(&words[GRID], grid, sizeof grid);
    words[TOTAL] = total;
    words[PARTS] = (int64_t)least(threads, MOST_PARTS);
    words[CHUNK] = threads > 1 ? (int64_t)most(1, total / (threads * CHUNKS_PER_THREAD)) : total;
    Py_INCREF((PyObject *)s);
    int answer = run_simulated(s, threads, grid, words);
    if (answer == 1 && journal && !note(journal, s, grid, read)) {
        PyErr_NoMemory();
        answer = -1;
    }
    Py_DECREF((PyObject *)s);
    return answer;
}

/* ---- What Triton calls ---- */

static int has_hooks(PyObject *chain)
{
    if (Py_IsNone(chain))
        return 0;
    PyObject *calls = PyObject_GetAttr(chain, calls_name);
    int answer = calls ? PyObject_IsTrue(calls) : 1;
    Py_XDECREF(calls);
    return answer;
}

/* (list, x, y, z, *values) */
static int launch_bound(Kernel *k, const char *format, PyObject *const *args)
{
    uint64_t given;
    if (!read_wide(args[0], &given))
        return 0;
    ze_command_list_handle_t list = (ze_command_list_handle_t)(uintptr_t)given;
    return run(k, format, list ? &list : &k->device->list, args + 1, args + 4);
}

static int is_recorded(const Device *d, uint64_t stream)
{
    return stream && d->queue_state && d->queue_state((const void *)(uintptr_t)stream);
}

static int launch_on_queue(Kernel *k, const char *format, uint64_t stream, PyObject *const *args)
{
    return (!stream || stream == k->device->stream) && !is_recorded(k->device, stream) &&
           run(k, format, stream ? &k->device->stream_list : &k->device->list, args, args + 9);
}

/* (x, y, z, stream, function, packed, metadata, enter hook, exit hook, *values) */
static int launch_direct(const char *format, PyObject *const *args)
{
    uint64_t stream;
    int answer = 0;
    if (has_hooks(args[7]) || has_hooks(args[8]) || !read_wide(args[3], &stream))
        return 0;
    PyObject *state = PyObject_GetAttr(args[4], state_name);
    if (state && Py_IS_TYPE(state, simulated_type))
        answer = simulate((Simulated *)state, format, args, args + 9);
    else if (state && Py_IS_TYPE(state, kernel_type))
        answer = launch_on_queue((Kernel *)state, format, stream, args);
    Py_XDECREF(state);
    return answer;
}

/* `self` is what `make_launcher` was given. */
static PyObject *launch(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *kernel = PyTuple_GetItem(self, 0), *format = PyTuple_GetItem(self, 1);
    const char *letters = PyBytes_AsString(format);
    int is_direct = Py_IsNone(kernel), done = 0;
    if (count == (is_direct ? 9 : 4) + PyBytes_Size(format))
        done = is_direct ? launch_direct(letters, args)
                         : launch_bound((Kernel *)kernel, letters, args);
    if (done > 0)
        Py_RETURN_NONE;
    if (done < 0)
        return NULL;
    PyErr_Clear();
    PyObject *all = PyTuple_New(count);
    for (Py_ssize_t n = 0; all && n < count; n++)
        PyTuple_SetItem(all, n, Py_NewRef(args[n]));
    PyObject *answer = all ? PyObject_CallObject(PyTuple_GetItem(self, 2), all) : NULL;
    Py_XDECREF(all);
    return answer;
}

/* make_launcher(kernel, format, general); without a kernel it is called as Triton calls one. */
static PyObject *make_launcher(PyObject *self, PyObject *args)
{
    static PyMethodDef method = {
        "launch", (PyCFunction)(void (*)(void))launch, METH_FASTCALL, NULL};
    PyObject *kernel, *format, *general;
    if (!PyArg_ParseTuple(args, "OSO", &kernel, &format, &general))
        return NULL;
    if ((Py_IsNone(kernel) || Py_IS_TYPE(kernel, kernel_type)) &&
        PyBytes_Size(format) <= MOST_ARGUMENTS)
        return PyCFunction_NewEx(&method, args, NULL);
    PyErr_SetString(PyExc_TypeError, "not a kernel, or too many values");
    return NULL;
}

/* ---- What torch and Triton ask around each launch ---- */

/* C functions that know the answers for torch's simulated devices. */
struct answers {
    int (*device)(void);
    int64_t (*stream)(int device);
    uint64_t (*handle)(int device, int64_t stream);
    long count; /* of devices */
};

/* `self` of what is asked: a `struct answers`, and what takes the devices that do not exist. */
static const struct answers *answers_of(PyObject *self)
{
    return (const struct answers *)PyBytes_AsString(PyTuple_GetItem(self, 0));
}

static PyObject *current_device(PyObject *self, PyObject *unused)
{
    return PyLong_FromLong(answers_of(self)->device());
}

/* The number of a device, or -1 for what is none. */
static int existing(PyObject *self, PyObject *device)
{
    long index = PyLong_CheckExact(device) ? PyLong_AsLong(device) : -1;
    if (index == -1)
        PyErr_Clear();
    return index >= 0 && index < answers_of(self)->count ? (int)index : -1;
}

static PyObject *current_stream(PyObject *self, PyObject *device)
{
    const struct answers *answers = answers_of(self);
    int index = existing(self, device);
    if (index < 0)
        return PyObject_CallFunctionObjArgs(PyTuple_GetItem(self, 1), device, NULL);
    return PyLong_FromUnsignedLongLong(answers->handle(index, answers->stream(index)));
}

/* Launches have ended when they return. */
static PyObject *wait_for(PyObject *self, PyObject *device)
{
    if (existing(self, device) < 0)
        return PyObject_CallFunctionObjArgs(PyTuple_GetItem(self, 1), device, NULL);
    Py_RETURN_NONE;
}

/* make_answers(addresses of device, stream and handle, count, general stream, general wait): what
   answers for the current device and, of a device, for its stream, and once it is idle. */
static PyObject *make_answers(PyObject *self, PyObject *args)
{
    static PyMethodDef methods[] = {
        {"current_device", current_device, METH_NOARGS, NULL},
        {"current_stream", current_stream, METH_O, NULL}, {"wait_for", wait_for, METH_O, NULL}};
    unsigned long long device, stream, handle;
    struct answers answers = {0};
    PyObject *general[3] = {Py_None}, *made = PyTuple_New(3);
    if (!made || !PyArg_ParseTuple(args, "KKKlOO", &device, &stream, &handle, &answers.count,
                                   &general[1], &general[2])) {
        Py_XDECREF(made);
        return NULL;
    }
    answers.device = (__typeof__(answers.device))(uintptr_t)device;
    answers.stream = (__typeof__(answers.stream))(uintptr_t)stream;
    answers.handle = (__typeof__(answers.handle))(uintptr_t)handle;
    for (int n = 0; made && n < 3; n++) {
        PyObject *own = Py_BuildValue("y#O", &answers, (Py_ssize_t)sizeof answers, general[n]);
        PyObject *each = own ? PyCFunction_NewEx(&methods[n], own, NULL) : NULL;
        Py_XDECREF(own);
        if (each)
            PyTuple_SetItem(made, n, each);
        else
            Py_CLEAR(made);
    }
    return made;
}

/* ---- Shared pointers of libstdc++ ---- */

/* bits/shared_ptr_base.h: the table's entries 2 and 3 end the object and the block itself. */
typedef struct ControlBlock {
    void (**table)(struct ControlBlock *);
    _Atomic int32_t uses, watchers;
} ControlBlock;

/* release_shared(address): give up one use of what a control block counts. */
static PyObject *release_shared(PyObject *self, PyObject *address)
{
    ControlBlock *block = PyLong_AsVoidPtr(address);
    if (!block)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (block->uses-- == 1) {
        block->table[2](block);
        if (block->watchers-- == 1)
            block->table[3](block);
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* failing_step(packed table, arguments, grid), for tests: bytes of 64-bit numbers. */
static PyObject *failing_step(PyObject *self, PyObject *args)
{
    PyObject *packed;
    const uint64_t *arguments, *grid;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "Sy#y#", &packed, &arguments, &size, &grid, &size))
        return NULL;
    Conditions *c = read_conditions(packed);
    if (!c)
        return NULL;
    int answer = failing(c, arguments, grid);
    PyMem_Free(c);
    return PyLong_FromLong(answer);
}

static PyMethodDef functions[] = {
    {"failing_step", failing_step, METH_VARARGS, NULL},
    {"make_answers", make_answers, METH_VARARGS, NULL},
    {"make_launcher", make_launcher, METH_VARARGS, NULL},
    {"read_tensors", read_tensors, METH_VARARGS, NULL},
    {"device_of", device_of, METH_O, NULL},
    {"release_shared", release_shared, METH_O, NULL},
    {"use_pool", use_pool, METH_VARARGS, NULL},
    {"unless", unless, METH_VARARGS, NULL},
    {"read_limits", read_limits, METH_VARARGS, NULL},
    {"end_overdue", end_overdue, METH_O, NULL},
    {NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "launch", NULL, -1, functions,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_launch(void)
{
    PyObject *module = PyModule_Create(&definition);
    data_ptr_name = PyUnicode_InternFromString("data_ptr");
    calls_name = PyUnicode_InternFromString("calls");
    state_name = PyUnicode_InternFromString("launch_state");
    device_type = (PyTypeObject *)PyType_FromSpec(&device_spec);
    kernel_type = (PyTypeObject *)PyType_FromSpec(&kernel_spec);
    journal_type = (PyTypeObject *)PyType_FromSpec(&journal_spec);
    simulated_type = (PyTypeObject *)PyType_FromSpec(&simulated_spec);
    if (module && device_type && kernel_type && journal_type && simulated_type) {
        PyModule_AddObjectRef(module, "Device", (PyObject *)device_type);
        PyModule_AddObjectRef(module, "Journal", (PyObject *)journal_type);
        PyModule_AddObjectRef(module, "Simulated", (PyObject *)simulated_type);
        PyModule_AddObjectRef(module, "Kernel", (PyObject *)kernel_type);
        PyModule_AddIntMacro(module, MOST_ARGUMENTS);
        PyModule_AddStringConstant(module, "source", XE_SOURCE);
    }
    return module;
}
