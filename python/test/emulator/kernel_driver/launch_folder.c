/* A program of a user: launch a kernel of `triton-xe compile` through its header, check its sums. */
#include "add_kernel.h"
#include <stdio.h>
#include <stdlib.h>
#define COUNT 3000
#define DO(call)                                             \
    do {                                                     \
        ze_result_t code = call;                             \
        if (code) {                                          \
            printf("%s: 0x%x\n", #call, (unsigned)code);     \
            return 1;                                        \
        }                                                    \
    } while (0)

int main(int count, char **names) {
    static uint8_t code[1 << 20];
    FILE *file = fopen(count > 1 ? names[1] : "", "rb");
    size_t size = file ? fread(code, 1, sizeof code, file) : 0;
    ze_driver_handle_t driver;
    ze_device_handle_t device;
    ze_context_handle_t context;
    ze_command_list_handle_t list;
    ze_module_handle_t module;
    ze_kernel_handle_t kernel;
    uint32_t one = 1;
    DO(zeInit(0));
    DO(zeDriverGet(&one, &driver));
    DO(zeDeviceGet(driver, &one, &device));
    ze_context_desc_t context_desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    DO(zeContextCreate(driver, &context_desc, &context));
    ze_command_queue_desc_t queue = {ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC};
    DO(zeCommandListCreateImmediate(context, device, &queue, &list));
    ze_module_desc_t module_desc = {ZE_STRUCTURE_TYPE_MODULE_DESC, NULL, ADD_KERNEL_FORMAT, size,
                                    code, ADD_KERNEL_BUILD_FLAGS, NULL};
    DO(zeModuleCreate(context, device, &module_desc, &module, NULL));
    ze_kernel_desc_t kernel_desc = {ZE_STRUCTURE_TYPE_KERNEL_DESC, NULL, 0, ADD_KERNEL_NAME};
    DO(zeKernelCreate(module, &kernel_desc, &kernel));
    ze_host_mem_alloc_desc_t memory = {ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    float *blocks[3];
    for (int i = 0; i < 3; i++)
        DO(zeMemAllocHost(context, &memory, COUNT * sizeof(float), 64, (void **)&blocks[i]));
    for (int i = 0; i < COUNT; i++) blocks[0][i] = i, blocks[1][i] = 0.5f * i, blocks[2][i] = -1;
    ze_group_count_t grid = {(COUNT + 1023) / 1024, 1, 1};
    DO(add_kernel_launch(list, kernel, grid, blocks[0], blocks[1], blocks[2], COUNT));
    DO(zeCommandListHostSynchronize(list, UINT64_MAX));
    int right = 0;
    for (int i = 0; i < COUNT; i++) right += blocks[2][i] == 1.5f * i;
    printf("%d of %d sums are right\n", right, COUNT);
    return 0;
}
