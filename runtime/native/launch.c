/* Launch kernels on Level Zero: read the Python arguments, check them, hand them to the driver.

   Whatever is unusual about a launch, a wrong argument first of all, is left to a function in
   Python (`level_zero/launcher.py`), which is called with the same arguments.  Python's lock is
   held from the first argument that is set to the append: that makes both one step for every other
   thread.

   Only the limited API is used, so that one build serves every CPython from 3.11 on.

   A format has one letter for each value that a launch is given: those of Python's `struct`, 'P'
   for a pointer, 'E' for bfloat16, 's' for bytes of shared local memory, 'x' for what is no
   argument. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <structmember.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

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

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

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

static int multiply(const Range *x, const Range *y, Range *to)
{
    int64_t ends[4];
    if (__builtin_mul_overflow(x->low, y->low, &ends[0]) ||
        __builtin_mul_overflow(x->low, y->high, &ends[1]) ||
        __builtin_mul_overflow(x->high, y->low, &ends[2]) ||
        __builtin_mul_overflow(x->high, y->high, &ends[3]))
        return 0;
    to->low = least(least(ends[0], ends[1]), least(ends[2], ends[3]));
    to->high = most(most(ends[0], ends[1]), most(ends[2], ends[3]));
    to->zeros = (int)least(x->zeros + y->zeros, MANY_ZEROS);
    return 1;
}

/* By positive divisors: a quotient is farthest from zero for the smallest one. */
static void divide(const Range *x, const Range *y, Range *to)
{
    to->low = x->low / (x->low < 0 ? y->low : y->high);
    to->high = x->high / (x->high < 0 ? y->high : y->low);
    to->zeros = 0;
}

static void remainder_of(const Range *x, const Range *y, Range *to)
{
    if (-y->low < x->low && x->high < y->low) {
        *to = *x;
    } else {
        int zeros = x->zeros < y->zeros ? x->zeros : y->zeros;
        int64_t end = y->high - (INT64_C(1) << zeros);
        *to = (Range){most(least(x->low, 0), -end), least(most(x->high, 0), end), zeros};
    }
}

/* The same of two numbers, as most steps are of. */
static int compute_number(const Step *s, int64_t x, int64_t y, Range *to)
{
    int64_t value;
    switch (s->op) {
    case ADD: if (__builtin_add_overflow(x, y, &value)) return 0; break;
    case SUBTRACT: if (__builtin_sub_overflow(x, y, &value)) return 0; break;
    case MULTIPLY: if (__builtin_mul_overflow(x, y, &value)) return 0; break;
    case DIVIDE: if (y < 1) return 0; value = x / y; break;
    case REMAINDER: if (y < 1) return 0; value = x % y; break;
    case MINIMUM: value = least(x, y); break;
    default: value = most(x, y);
    }
    if (s->bits < 64 && (value << (64 - s->bits)) >> (64 - s->bits) != value)
        return 0;
    *to = exact(value);
    return 1;
}

/* The range of an arithmetic step; 0 where it may overflow or divide by no positive number. */
static int compute(const Step *s, const Range *x, const Range *y, Range *to)
{
    if (x->low == x->high && y->low == y->high && s->op <= MAXIMUM)
        return compute_number(s, x->low, y->low, to);
    Range r = {0, 0, x->zeros < y->zeros ? x->zeros : y->zeros};
    switch (s->op) {
    case ADD:
        if (__builtin_add_overflow(x->low, y->low, &r.low) ||
            __builtin_add_overflow(x->high, y->high, &r.high))
            return 0;
        break;
    case SUBTRACT:
        if (__builtin_sub_overflow(x->low, y->high, &r.low) ||
            __builtin_sub_overflow(x->high, y->low, &r.high))
            return 0;
        break;
    case MULTIPLY:
        if (!multiply(x, y, &r))
            return 0;
        break;
    case DIVIDE: case REMAINDER:
        if (y->low < 1)
            return 0;
        (s->op == DIVIDE ? divide : remainder_of)(x, y, &r);
        break;
    case MINIMUM: r.low = least(x->low, y->low); r.high = least(x->high, y->high); break;
    case MAXIMUM: r.low = most(x->low, y->low); r.high = most(x->high, y->high); break;
    case EITHER: r.low = least(x->low, y->low); r.high = most(x->high, y->high); break;
    default: r.low = x->low; r.high = y->high > x->high ? y->high - 1 : x->high; r.zeros = 0;
    }
    if (s->bits < 64 && (r.low < -(INT64_C(1) << (s->bits - 1)) ||
                         r.high >= INT64_C(1) << (s->bits - 1)))
        return 0;
    *to = r.low == r.high ? exact(r.low) : r;
    return 1;
}

static Range rest(const Range *x, int power)
{
    int64_t size = INT64_C(1) << power;
    if (x->low == x->high)
        return exact(x->low & (size - 1));
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

/* ---- Kernels ---- */

#define MOST_ARGUMENTS 256

typedef struct {
    PyObject_HEAD
    Device *device;
    ze_kernel_handle_t handle; /* NULL when the kernel is closed */
    int is_busy;  /* Python is setting arguments */
    int has_last; /* the driver has the values in `last` */
    int is_cooperative; /* left to Python, which asks how many groups the device holds at once */
    Conditions *conditions; /* NULL: it runs for every launch */
    PyObject *versions;     /* for Python */
    PyObject *general;      /* the kernel for launches that do not satisfy them, once loaded */
    PyObject *short_rows;   /* that for launches that fail the condition of this number first */
    int short_condition;
    uint64_t last[MOST_ARGUMENTS];
    char types[MOST_ARGUMENTS + 1]; /* a format */
} Kernel;

/* assume(packed table, number of a condition): launch this kernel only when the conditions hold. */
static PyObject *kernel_assume(PyObject *self, PyObject *args)
{
    PyObject *packed;
    if (!PyArg_ParseTuple(args, "Si", &packed, &((Kernel *)self)->short_condition))
        return NULL;
    Conditions *c = read_conditions(packed);
    if (!c)
        return NULL;
    PyMem_Free(((Kernel *)self)->conditions);
    ((Kernel *)self)->conditions = c;
    Py_RETURN_NONE;
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
    Py_XDECREF(k->general);
    Py_XDECREF(k->short_rows);
    PyMem_Free(k->conditions);
    release(self);
}

static PyMemberDef kernel_members[] = {
    MEMBER(Kernel, T_ULONGLONG, handle), MEMBER(Kernel, T_INT, is_busy),
    MEMBER(Kernel, T_INT, is_cooperative),
    MEMBER(Kernel, T_INT, has_last), MEMBER(Kernel, T_OBJECT, versions),
    MEMBER(Kernel, T_OBJECT, general), MEMBER(Kernel, T_OBJECT, short_rows),
    {NULL},
};
static PyMethodDef kernel_methods[] = {{"assume", kernel_assume, METH_VARARGS, NULL}, {NULL}};
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

static int read_value(Device *d, PyObject *o, char type, uint64_t *to)
{
    switch (type) {
    case 'P': return read_pointer(d, o, to);
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

/* Whether a kernel has the parameters of a format; bfloat16 travels as a 16-bit integer. */
static int fits(const Kernel *k, const char *format)
{
    const char *types = k->types;
    for (; *format; format++) {
        char type = *format == 'E' ? 'h' : *format;
        if (type != 'x' && type != (*types == 'E' ? 'h' : *types))
            return 0;
        types += type != 'x';
    }
    return !*types;
}

static int is_open(const Kernel *k) { return k->handle && k->device->list && !k->is_busy; }

/* Read all values, choose the version of the kernel, then set all arguments, then append the kernel to the list. */
static int run(Kernel *k, const char *format, const ze_command_list_handle_t *list,
               PyObject *const *sizes, PyObject *const *values)
{
    uint64_t grid[3], read[MOST_ARGUMENTS];
    uint32_t count = 0;
    /* the number of a program is a signed 32-bit integer */
    for (int n = 0; n < 3; n++)
        if (!read_wide(sizes[n], &grid[n]) || grid[n] > INT32_MAX)
            return 0;
    if (k->is_cooperative || !fits(k, format))
        return 0;
    for (const char *type = format; *type; type++, values++)
        if (*type != 'x' && !read_value(k->device, *values, *type, &read[count++]))
            return 0;
    int failed = k->conditions ? failing(k->conditions, read, grid) : -1;
    if (failed >= 0) {
        PyObject *other = failed == k->short_condition ? k->short_rows : k->general;
        if (!other || !Py_IS_TYPE(other, kernel_type) || !fits((Kernel *)other, format))
            return 0;
        k = (Kernel *)other;
    }
    if (!is_open(k)) /* asked last: reading a value can run Python code */
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

/* (x, y, z, stream, function, packed, metadata, enter hook, exit hook, *values) */
static int launch_direct(const char *format, PyObject *const *args)
{
    uint64_t stream;
    if (has_hooks(args[7]) || has_hooks(args[8]) || !read_wide(args[3], &stream))
        return 0;
    PyObject *state = PyObject_GetAttr(args[4], state_name);
    Kernel *k = (Kernel *)state;
    int is_done =
        state && Py_IS_TYPE(state, kernel_type) && (!stream || stream == k->device->stream) &&
        !is_recorded(k->device, stream) &&
        run(k, format, stream ? &k->device->stream_list : &k->device->list, args, args + 9);
    Py_XDECREF(state);
    return is_done;
}

/* `self` is what `make_launcher` was given. */
static PyObject *launch(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *kernel = PyTuple_GetItem(self, 0), *format = PyTuple_GetItem(self, 1);
    const char *letters = PyBytes_AsString(format);
    int is_direct = Py_IsNone(kernel);
    if (count == (is_direct ? 9 : 4) + PyBytes_Size(format) &&
        (is_direct ? launch_direct(letters, args) : launch_bound((Kernel *)kernel, letters, args)))
        Py_RETURN_NONE;
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
    {"make_launcher", make_launcher, METH_VARARGS, NULL},
    {"read_tensors", read_tensors, METH_VARARGS, NULL},
    {"device_of", device_of, METH_O, NULL},
    {"release_shared", release_shared, METH_O, NULL},
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
    if (module && device_type && kernel_type) {
        PyModule_AddObjectRef(module, "Device", (PyObject *)device_type);
        PyModule_AddObjectRef(module, "Kernel", (PyObject *)kernel_type);
        PyModule_AddIntMacro(module, MOST_ARGUMENTS);
        PyModule_AddStringConstant(module, "source", XE_SOURCE);
    }
    return module;
}
